"""Download the evidence of a rebuild as a self-contained file."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dbops.database import clock
from dbops.lib.documents import render_document
from dbops.operations.audit_log import take_evidence
from dbops.queries.rebuilds.evidence import evidence_of
from dbops.queries.rebuilds.pages import find
from dbops.web.decorators import user_of, viewer_page


@require_GET
@never_cache
@viewer_page
def evidence(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Send a rebuild's evidence with its audit entries. The download is audited."""
    found = find(rebuild_id)
    if found is None:
        raise Http404(_("There is no rebuild %(number)s.") % {"number": rebuild_id})
    by, now = user_of(request).get_username(), clock.now()
    # Others read the file, too, and its hash is in the audit log: it is in the language of the records.
    with translation.override(settings.LANGUAGE_CODE):
        html = render_document("rebuilds/evidence.html", evidence=evidence_of(found, made_by=by, now=now), is_file=True)
    take_evidence(html, found, actor=by, path=request.path)
    name = f"rebuild-{rebuild_id}-{timezone.localtime(now):%Y%m%d-%H%M%S}.html"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(html, headers=headers)
