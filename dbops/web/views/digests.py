"""Pages: the top statements of a cluster's instances, for a load test."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from django.views.decorators.vary import vary_on_headers

from dbops.engine.errors import Refused
from dbops.engine.load_tests.digests import digest_plan
from dbops.engine.load_tests.request import Raised
from dbops.engine.load_tests.workload import Profile
from dbops.engine.states import Role
from dbops.models import Cluster, DigestReading, Instance
from dbops.operations.digests import request_digest_reading
from dbops.queries.digests import digest_readings_of, digests_of, find_digest_reading
from dbops.web.decorators import operator_page, user_of, viewer_page
from dbops.web.forms.load_tests import LoadTestForm


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def digests(request: HttpRequest, name: str) -> HttpResponse:
    """Show one reading of a cluster, the newest by default; a poll gets it without the frame. The URL keeps the choices of a load test."""
    cluster = get_object_or_404(Cluster, name=name)
    template = "digests/_reading.html" if request.headers.get("HX-Request") else "digests/page.html"
    return render(request, template, _context(request, cluster))


@require_POST
@operator_page
def read(request: HttpRequest, name: str) -> HttpResponse:
    """Request a reading of the instance and schema of the form; the rest of the form stays in the URL."""
    cluster = get_object_or_404(Cluster, name=name)
    wanted = request.POST.get("instance") or request.POST.get("source") or ""
    instance = get_object_or_404(Instance, cluster=cluster, name=wanted.replace("\0", ""))
    schema = request.POST.get("schema", "").strip()
    try:
        row = request_digest_reading(actor=user_of(request), instance=instance, schema=schema)
    except Refused as error:
        return render(request, "digests/page.html", _context(request, cluster) | {"refused": error}, status=409)
    return redirect(f"{reverse('load-test-digests', args=[name])}?{urlencode({**_kept(request), 'reading': row.pk})}")


def _context(request: HttpRequest, cluster: Cluster) -> dict[str, object]:
    readings = digest_readings_of(cluster.pk)
    newest = readings[0].pk if readings else 0
    row = find_digest_reading(request.GET.get("reading", "") or newest, cluster_id=cluster.pk)
    found = digests_of(row)
    kept = _kept(request)
    instances = list(Instance.objects.filter(cluster=cluster).exclude(role=Role.TIDB).order_by("name"))
    return {
        "cluster": cluster,
        "instances": instances,
        "instance_name": row.instance.name if row else kept.get("source", ""),
        "schema": kept.get("schema", "") or (row.schema if row else ""),
        "readings": readings,
        "row": row,
        "active": next((one for one in readings if not one.is_over), None),
        "digests": digest_plan(found) if found else None,
        "kept": urlencode(kept),
        "use": _use(kept, row) if row and found else "",
    }


def _kept(request: HttpRequest) -> dict[str, str]:
    """Return the choices of a load test in the URL or the form, for the way back, without long texts."""
    names = [name for name in LoadTestForm.base_fields if name not in LoadTestForm.LONG]
    given = {**request.GET.dict(), **request.POST.dict()}
    return {name: str(given[name]).replace("\0", "")[:2000] for name in names if given.get(name)}


def _use(kept: dict[str, str], row: DigestReading) -> str:
    first = {} if kept.get("schemas") or kept.get("raised") else {"raised": Raised.SCHEMAS.value}
    query = {**first, **kept, "profile": Profile.ROTATING.value, "schema": row.schema, "digests": str(row.pk)}
    return f"{reverse('load-test-new', args=[row.instance.cluster.name])}?{urlencode(query)}"
