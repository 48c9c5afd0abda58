"""Pages of the audit log."""

from datetime import MAXYEAR, MINYEAR, datetime, time, timedelta

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from dbops.database import clock
from dbops.engine.audit.entries import VIEWS
from dbops.engine.phrases import phrase
from dbops.operations.audit_log import FORMATS, export_log, verify_log
from dbops.queries.audit.log import AuditFilter, archived_in, choices, entries, every, stored
from dbops.queries.audit.log import entry as find
from dbops.web.decorators import user_of, viewer_page
from dbops.web.exports.streaming import streamed

NAMES = ("actor", "action", "subject", "instance", "cluster", "outcome", "text")
TYPES = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
#: By the keys of ``engine.audit.entries.VIEWS``.
VIEW_TITLES = {
    "overrides": phrase("Overrides"),
    "failed-logins": phrase("Failed logins"),
    "data-movement": phrase("Data movement"),
}
#: Most findings in a message.
LISTED = 3


@require_GET
@viewer_page
def audit(request: HttpRequest) -> HttpResponse:
    """Show audit entries, newest first."""
    asked = request.GET
    wanted = _filter(asked)
    page = entries(wanted, before=_number(asked, "before"), after=_number(asked, "after"))
    context = {
        "wanted": wanted,
        "asked": {name: asked.get(name, "") for name in ("from", "to")},
        "page": page,
        "views": VIEW_TITLES,
        "outcomes": choices("outcome"),
        "query": _without_place(asked),
    }
    return render(request, "audit/list.html", context)


@require_GET
@viewer_page
def entry(request: HttpRequest, sequence: int) -> HttpResponse:
    """Show one entry with its hashes."""
    row = find(sequence)
    if row is None:
        raise Http404(archived_in(sequence) or _("The audit log has no entry %(number)s.") % {"number": sequence})
    return render(request, "audit/entry.html", {"entry": row})


@require_POST
@viewer_page
def verify(request: HttpRequest) -> HttpResponse:
    """Verify the whole log and show the findings."""
    findings, head, count = verify_log(stored(), actor=user_of(request).get_username())
    if findings:
        listed = "; ".join(str(item) for item in findings[:LISTED])
        more = len(findings) - LISTED
        if more > 0:
            listed = _("%(listed)s; and %(more)s more") % {"listed": listed, "more": more}
        said = ngettext(
            "Verification found %(number)s problem. %(listed)s.",
            "Verification found %(number)s problems. %(listed)s.",
            len(findings),
        )
        messages.error(request, said % {"number": len(findings), "listed": listed})
    else:
        messages.success(
            request,
            _("Verification found no problems. Entries: %(count)s. Head: %(head)s") % {"count": count, "head": head},
        )
    return redirect("audit")


@require_POST
@viewer_page
def export(request: HttpRequest) -> HttpResponseBase:
    """Send all matching entries as a file, oldest first."""
    kind = request.POST.get("format", "")
    if kind not in FORMATS:
        raise Http404(_("Unknown export format."))
    wanted = _filter(request.GET)
    by = user_of(request).get_username()
    lines = export_log(every(wanted), kind, actor=by, wanted=wanted.as_record())
    answer = streamed(request, lines, TYPES[kind])
    answer["Content-Disposition"] = f'attachment; filename="audit-{clock.now():%Y%m%d-%H%M%S}.{kind}"'
    return answer


def _filter(asked: QueryDict) -> AuditFilter:
    view = asked.get("view", "")
    values = {name: asked.get(name, "").strip().replace("\0", "") for name in NAMES}
    since, until = _moment(asked.get("from", "")), _moment(asked.get("to", ""), days=1)
    return AuditFilter(**values, view=view if view in VIEWS else "", since=since, until=until)


def _moment(text: str, *, days: int = 0) -> datetime | None:
    """Return a time, or the start of a day plus ``days``, in the page's zone; ``None`` if invalid."""
    try:
        day = parse_date(text)
        found = datetime.combine(day + timedelta(days=days), time()) if day else parse_datetime(text)
        found = timezone.make_aware(found) if found and timezone.is_naive(found) else found
        # Date arithmetic overflows near the first and last year.
        return found if found and MINYEAR + 1 < found.year < MAXYEAR else None
    except (ValueError, OverflowError):
        return None


def _number(asked: QueryDict, name: str) -> int | None:
    text = asked.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _without_place(asked: QueryDict) -> str:
    """Return the filter of a page's query string without its page position."""
    kept = asked.copy()
    for name in ("before", "after", "page"):
        kept.pop(name, None)
    return kept.urlencode()
