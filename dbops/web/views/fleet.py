"""The fleet and one cluster."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers

from dbops.models import Cluster
from dbops.queries import calendar, overview, schedules, topology
from dbops.queries import fleet as queries
from dbops.queries.queue import lines_of
from dbops.web.access import viewer_page
from dbops.web.drawing import instance_rows
from dbops.web.schedule_forms import MaintenanceForm


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def fleet(request: HttpRequest) -> HttpResponse:
    """Show one row for each cluster, those in trouble first; a poll gets the table alone."""
    template = "fleet/_clusters.html" if request.headers.get("HX-Request") else "fleet/list.html"
    found = overview.fleet(
        timezone.now(),
        text=request.GET.get("text", "").strip(),
        only_blocked=request.GET.get("show") == "blocked",
        number=request.GET.get("page", "1"),
    )
    return render(request, template, {"fleet": found, "page": found.page})


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def cluster(request: HttpRequest, name: str) -> HttpResponse:
    """Show a cluster's topology, instances and rebuilds; a poll gets them without the frame."""
    now = timezone.now()
    page = queries.cluster_page(get_object_or_404(Cluster, name=name))
    agenda = calendar.agenda_of(page.cluster, now)
    template = "fleet/_instances.html" if request.headers.get("HX-Request") else "fleet/cluster.html"
    context = {
        "page": page,
        "cluster": page.cluster,
        "agenda": agenda,
        "drawings": instance_rows(agenda.timeline, [member.name for member in agenda.cluster.members]),
        "drawing": topology.drawing(page),
        "differences": topology.differences(page.cluster.pk),
        "lines": lines_of(agenda),
        "schedules": schedules.of_cluster(page.cluster.pk),
        "maintenances": calendar.maintenances(page.cluster, now),
        "maintenance_form": MaintenanceForm(),
    }
    return render(request, template, context)
