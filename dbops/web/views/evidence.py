"""Evidence of one rebuild: a file that stands alone, for whoever must see it without dbops."""

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dbops.lib.pdf import document
from dbops.operations.audit_log import take_evidence
from dbops.queries.rebuilds.evidence import evidence_of
from dbops.queries.rebuilds.pages import find
from dbops.web.decorators import user_of, viewer_page


@require_GET
@never_cache
@viewer_page
def evidence(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Send everything that is known of a rebuild, with its entries of the audit log. Taking it is in the log, too."""
    found = find(rebuild_id)
    if found is None:
        raise Http404(f"There is no rebuild {rebuild_id}.")
    by, now = user_of(request).get_username(), timezone.now()
    html = document("rebuilds/evidence.html", evidence=evidence_of(found, made_by=by, now=now), stands_alone=True)
    take_evidence(html, found, actor=by, path=request.path)
    name = f"rebuild-{rebuild_id}-{timezone.localtime(now):%Y%m%d-%H%M%S}.html"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(html, headers=headers)
