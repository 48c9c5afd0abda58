"""The fleet and one cluster."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers

from dbops.models import Cluster
from dbops.queries import fleet as queries
from dbops.queries import topology
from dbops.web.access import viewer_page


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def fleet(request: HttpRequest) -> HttpResponse:
    """Show one row for each cluster, those in trouble first; a poll gets the table alone."""
    template = "fleet/_clusters.html" if request.headers.get("HX-Request") else "fleet/list.html"
    return render(request, template, {"clusters": queries.fleet()})


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def cluster(request: HttpRequest, name: str) -> HttpResponse:
    """Show a cluster's topology, instances and rebuilds; a poll gets them without the frame."""
    page = queries.cluster_page(get_object_or_404(Cluster, name=name))
    template = "fleet/_instances.html" if request.headers.get("HX-Request") else "fleet/cluster.html"
    context = {"page": page, "cluster": page.cluster, "drawing": topology.drawing(page)}
    return render(request, template, context | {"differences": topology.differences(page.cluster.pk)})
