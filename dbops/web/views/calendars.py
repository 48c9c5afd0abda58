"""Pages: calendars, the queue and announced maintenance."""

from datetime import date, timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from django.views.decorators.vary import vary_on_headers

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.models import Cluster, Maintenance
from dbops.operations import maintenance as verbs
from dbops.queries.schedule import calendar as queries
from dbops.queries.schedule import fleet_calendar as fleet_queries
from dbops.queries.schedule.fleet_calendar import CalendarSpan
from dbops.queries.schedule.queue import queue as read_queue
from dbops.web.charts.timeline import calendar_row, day_row
from dbops.web.dates import date_text
from dbops.web.decorators import operator_page, user_of, viewer_page
from dbops.web.forms.schedules import MaintenanceForm
from dbops.web.refusal_texts import cause_of
from dbops.web.templatetags.phrases import translated
from dbops.web.views.fleet import show_cluster


@require_GET
@never_cache
@viewer_page
def calendar(request: HttpRequest, name: str) -> HttpResponse:
    """Show seven days of a cluster: past jobs, backup windows and free slots."""
    cluster = get_object_or_404(Cluster, name=name)
    page = queries.calendar(cluster, clock.now(), timezone.get_current_timezone(), _date(request.GET.get("from", "")))
    drawn = [(day, day_row(day.timeline, name=date_text(day.on, "whole_day"))) for day in page.days]
    return render(request, "calendar/week.html", {"cluster": cluster, "calendar": page, "days": drawn})


@require_GET
@never_cache
@viewer_page
def fleet_calendar(request: HttpRequest) -> HttpResponse:
    """Show a day or a week of all clusters, one row each."""
    asked = request.GET
    span = asked.get("span", "")
    found = fleet_queries.fleet_calendar(
        clock.now(),
        timezone.get_current_timezone(),
        first=_date(asked.get("from", "")),
        span=CalendarSpan(span) if span in set(CalendarSpan) else CalendarSpan.DAY,
        text=asked.get("text", "").strip().replace("\0", ""),
        is_blocked=asked.get("blocked", "") == "1",
        number=asked.get("page", "1"),
    )
    rows = [
        (agenda, calendar_row(agenda.timeline, name=agenda.cluster.name, days=found.span.days)) for agenda in found.rows
    ]
    return render(request, "calendar/fleet.html", {"calendar": found, "rows": rows, "page": found.page})


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def queue(request: HttpRequest) -> HttpResponse:
    """Show the running and queued jobs of each instance."""
    found = read_queue(clock.now(), request.GET.get("page", "1"))
    template = "calendar/_queues.html" if request.headers.get("HX-Request") else "calendar/queue.html"
    return render(request, template, {"page": found.page, "queues": found.queues, "whole_fleet": True})


@require_POST
@operator_page
def begin_maintenance(request: HttpRequest, name: str) -> HttpResponse:
    """Announce maintenance of a cluster."""
    cluster = get_object_or_404(Cluster, name=name)
    form = MaintenanceForm(request.POST)
    if form.is_valid():
        try:
            verbs.begin_maintenance(actor=user_of(request), cluster=cluster, **form.cleaned_data)
        except Refused as error:
            form.add_refusal(error, _("Maintenance not announced: %(cause)s.") % {"cause": translated(error.cause)})
        else:
            messages.success(
                request, _("Maintenance of %(name)s announced. No rebuild starts during that time.") % {"name": name}
            )
            return redirect("cluster", name=name)
    return show_cluster(request, cluster, maintenance_form=form, status=422)


@require_POST
@operator_page
def end_maintenance(request: HttpRequest, name: str, maintenance_id: int) -> HttpResponse:
    """End running maintenance now, or withdraw future maintenance."""
    row = get_object_or_404(Maintenance.objects.select_related("cluster"), pk=maintenance_id, cluster__name=name)
    try:
        verbs.end_maintenance(actor=user_of(request), maintenance=row)
    except Refused as error:
        messages.error(request, cause_of(error))
    else:
        messages.success(request, _("Maintenance of %(name)s ended.") % {"name": name})
    return redirect("cluster", name=name)


def _date(text: str) -> date | None:
    """Return the date in a URL; ``None`` if it is invalid or more than ten years away."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    today = timezone.localdate()
    return found if abs(found - today) < timedelta(days=3650) else None
