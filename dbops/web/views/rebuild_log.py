"""Pages of a rebuild's log: plain HTML, the same lines as fragments for log.js, and the whole log as text."""

import re
from collections.abc import Iterator

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dbops.models import Rebuild
from dbops.queries.rebuilds import log as rebuild_log
from dbops.queries.rebuilds import pages as queries
from dbops.queries.rebuilds.log import Log, LogFilter
from dbops.web.decorators import viewer_page
from dbops.web.exports.record import exported
from dbops.web.exports.streaming import streamed
from dbops.web.live import fragments

#: fits into a key of every database
KEY = re.compile(r"[0-9]{1,18}")
LONGEST_TEXT = 200


@require_GET
@never_cache
@viewer_page
def log(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Show one page of the log, by default the newest lines; ``before``, ``after`` or ``around`` select another part."""
    found, wanted = _find(rebuild_id), _wanted(request)
    context = {
        "rebuild": found,
        "log": _lines(request, rebuild_id, wanted),
        "asked": _key(request, "around"),
        "is_paged": True,
        "filter_query": _filter_query(request),
        **fragments.log_tools(found, wanted),
    }
    return render(request, "rebuilds/log.html", context)


@require_GET
@never_cache
@viewer_page
def lines(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Return only the lines of one page; headers say whether there are older and newer ones."""
    if queries.revision(rebuild_id) is None:
        raise Http404(_("There is no rebuild %(number)s.") % {"number": rebuild_id})
    found = _lines(request, rebuild_id, _wanted(request))
    answer = render(request, "rebuilds/_log_lines.html", {"log": found})
    answer["X-Older"], answer["X-Newer"] = str(int(found.has_older)), str(int(found.has_newer))
    return answer


@require_GET
@never_cache
@viewer_page
def matches(request: HttpRequest, rebuild_id: int) -> HttpResponse:
    """Return the keys of matching lines, oldest first; ``is_cut`` if there are more."""
    if queries.revision(rebuild_id) is None:
        raise Http404(_("There is no rebuild %(number)s.") % {"number": rebuild_id})
    wanted = _wanted(request)
    events, is_cut = rebuild_log.matches(rebuild_id, wanted) if wanted.text else ([], False)
    return JsonResponse({"events": events, "is_cut": is_cut})


@require_GET
@exported("log of a rebuild")
@viewer_page
def text(request: HttpRequest, rebuild_id: int) -> HttpResponseBase:
    """Return the whole log as plain text, times in UTC."""
    answer = streamed(request, _text_lines(_find(rebuild_id)), "text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'inline; filename="rebuild-{rebuild_id}.log"'
    return answer


def _text_lines(found: Rebuild) -> Iterator[str]:
    for event in rebuild_log.whole(found.pk):
        moment = event.at.astimezone(timezone.get_fixed_timezone(0)).strftime("%Y-%m-%dT%H:%M:%SZ")
        host, words = fragments.clean(event.host) or "-", fragments.clean(event.text)
        yield f"{moment} {event.level:7} {host} {event.step or '-'} {words}\n"


def _lines(request: HttpRequest, rebuild_id: int, wanted: LogFilter) -> Log:
    if (event := _key(request, "around")) is not None:
        found = rebuild_log.around(rebuild_id, event, wanted)
        if found is None:
            raise Http404(_("Rebuild %(number)s has no line %(event)s.") % {"number": rebuild_id, "event": event})
        return found
    if (event := _key(request, "before")) is not None:
        return rebuild_log.before(rebuild_id, event, wanted)
    if (event := _key(request, "after")) is not None:
        return rebuild_log.after(rebuild_id, event, wanted)
    return rebuild_log.end(rebuild_id, wanted)


def _key(request: HttpRequest, name: str) -> int | None:
    given = request.GET.get(name, "")
    return int(given) if KEY.fullmatch(given) else None


def _wanted(request: HttpRequest) -> LogFilter:
    level = request.GET.get("level", "")
    # PostgreSQL accepts no NUL in a text.
    host, words = (request.GET.get(name, "").replace("\0", "")[:LONGEST_TEXT] for name in ("host", "find"))
    return LogFilter(host=host, level=level if level in rebuild_log.LEVELS else "", text=words)


def _filter_query(request: HttpRequest) -> str:
    """Return the URL parameters that links to other pages keep: all except the position in the log."""
    asked = request.GET.copy()
    for name in ("before", "after", "around"):
        asked.pop(name, None)
    return f"&{asked.urlencode()}" if asked else ""


def _find(rebuild_id: int) -> Rebuild:
    found = queries.find(rebuild_id)
    if found is None:
        raise Http404(_("There is no rebuild %(number)s.") % {"number": rebuild_id})
    return found
