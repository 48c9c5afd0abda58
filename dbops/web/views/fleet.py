"""The fleet and one cluster."""

from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from django.views.decorators.vary import vary_on_headers

from dbops.database import clock
from dbops.models import Cluster
from dbops.operations.account_admin import default_view_of, save_default_view
from dbops.queries import topology
from dbops.queries.backups import schedules
from dbops.queries.capacity import soon_by_cluster
from dbops.queries.fleet import cluster as queries
from dbops.queries.fleet import overview
from dbops.queries.fleet.doublewrite import settings_that_differ
from dbops.queries.fleet.overview import Show
from dbops.queries.fleet.tidb import tidb_page
from dbops.queries.schedule import calendar
from dbops.queries.schedule.queue import queues_of
from dbops.web.charts.timeline import instance_rows
from dbops.web.decorators import user_of, viewer_page
from dbops.web.forms.schedules import MaintenanceForm

#: Maximum length of the text. One character may need twelve in a URL.
TEXT_CHARACTERS = 80
#: The choices of the filter and their labels.
SHOWS = {
    Show.ALL: gettext_lazy("All"),
    Show.TROUBLE: gettext_lazy("With problems"),
    Show.BLOCKED: gettext_lazy("Blocked"),
    Show.RUNNING: gettext_lazy("Rebuilding"),
}


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def fleet(request: HttpRequest) -> HttpResponse:
    """Show one row for each cluster, those with problems first; a poll gets the table alone."""
    is_poll = bool(request.headers.get("HX-Request"))
    saved = "" if is_poll else default_view_of(user_of(request))
    if saved and not request.GET:
        return redirect(f"{request.path}?{saved}")
    text, show = filters(request.GET)
    found = overview.fleet(clock.now(), text=text, show=show, number=request.GET.get("page", "1"))
    context = {
        "fleet": found,
        "page": found.page,
        "shows": SHOWS,
        "default_view": saved,
        "is_default_view": _is_default_view(saved, text, show),
    }
    return render(request, "fleet/_clusters.html" if is_poll else "fleet/list.html", context)


@require_POST
@viewer_page
def default_view(request: HttpRequest) -> HttpResponse:
    """Save the submitted filters as the user's default view; without filters, reset it."""
    text, show = filters(request.POST)
    chosen = {"show": show.value if show is not Show.ALL else "", "text": text[:TEXT_CHARACTERS]}
    query = urlencode({name: value for name, value in chosen.items() if value})
    save_default_view(user_of(request), query)
    messages.success(request, _("Default view saved.") if query else _("Default view reset."))
    return redirect(f"{reverse('fleet')}?{query or 'show=all'}")


def filters(sent: QueryDict) -> tuple[str, Show]:
    """Return the search text and the filter; an unknown filter shows everything."""
    asked = sent.get("show", "")
    return sent.get("text", "").strip().replace("\0", ""), Show(asked) if asked in set(Show) else Show.ALL


def _is_default_view(saved: str, text: str, show: Show) -> bool:
    return filters(QueryDict(saved)) == (text, show)


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def cluster(request: HttpRequest, name: str) -> HttpResponse:
    """Show a cluster's topology, instances and rebuilds; a poll gets them without the frame."""
    return show_cluster(request, get_object_or_404(Cluster, name=name))


def show_cluster(
    request: HttpRequest, found: Cluster, *, maintenance_form: MaintenanceForm | None = None, status: int = 200
) -> HttpResponse:
    """Return a cluster's page. ``maintenance_form`` is an invalid form with its input."""
    now = clock.now()
    page = queries.cluster_page(found)
    agenda = calendar.agenda_of(page.cluster, now)
    is_poll = bool(request.headers.get("HX-Request"))
    template = "fleet/_poll.html" if is_poll else "fleet/cluster.html"
    context = {
        "page": page,
        "cluster": page.cluster,
        "agenda": agenda,
        "drawings": instance_rows(agenda.timeline, [member.name for member in agenda.cluster.members]),
        "drawing": topology.drawing(page),
        "differences": topology.differences(page.cluster.pk),
        "doublewrite_differs": settings_that_differ(page.row.rows),
        "queues": queues_of(agenda),
        "tidb": tidb_page(page.row),
        "limit": None if is_poll else soon_by_cluster(now, page.cluster.pk).get(page.cluster.pk),
        "week": () if is_poll else calendar.week_ahead(agenda, now, timezone.get_current_timezone()),
        "schedules": () if is_poll else schedules.of_cluster(page.cluster.pk),
        "maintenances": () if is_poll else calendar.maintenances(page.cluster, now),
        "maintenance_form": maintenance_form or MaintenanceForm(),
    }
    return render(request, template, context, status=status)
