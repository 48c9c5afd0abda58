"""Read a rebuild's log in pages: only the download reads all of its up to a hundred thousand lines."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import QuerySet
from django.db.models.functions import Lower
from django.db.models.lookups import Contains

from dbops.engine.states import Level
from dbops.models import Rebuild, RebuildEvent
from dbops.queries.rebuilds.step_titles import STEP_TITLE

LINES_SHOWN = 500
MATCHES_SHOWN = 10_000
#: options of the level filter: the key in the URL, and the matching levels
LEVELS: dict[str, tuple[Level, ...]] = {
    "": (),
    "warning": (Level.WARNING, Level.ERROR),
    "error": (Level.ERROR,),
}
#: the filter's key for lines without a host
OURS = "-"


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Filter of lines. ``host`` is a host's name, ``OURS`` for dbops' own lines, empty for all."""

    host: str = ""
    level: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.host or self.level or self.text)


ALL = LogFilter()


@dataclass(frozen=True, slots=True)
class Log:
    """Some lines of a log, oldest first, with ``step_title``. ``has_older`` and ``has_newer``: the log has more lines around them."""

    events: tuple[RebuildEvent, ...]
    has_older: bool = False
    has_newer: bool = False

    @property
    def first_event(self) -> int:
        return self.events[0].pk if self.events else 0

    @property
    def last_event(self) -> int:
        return self.events[-1].pk if self.events else 0


def end(rebuild_id: int, wanted: LogFilter = ALL, *, shown: int = LINES_SHOWN) -> Log:
    """Return the newest lines. One query."""
    newest, has_older = _cut(_rows(rebuild_id, wanted).order_by("-pk"), shown)
    return Log(tuple(reversed(newest)), has_older=has_older)


def before(rebuild_id: int, event_id: int, wanted: LogFilter = ALL, *, shown: int = LINES_SHOWN) -> Log:
    """Return the lines before one event. Two queries."""
    rows = _rows(rebuild_id, wanted)
    older, has_older = _cut(rows.filter(pk__lt=event_id).order_by("-pk"), shown)
    return Log(tuple(reversed(older)), has_older=has_older, has_newer=rows.filter(pk__gte=event_id).exists())


def after(rebuild_id: int, event_id: int, wanted: LogFilter = ALL, *, shown: int = LINES_SHOWN) -> Log:
    """Return the lines after one event. Two queries."""
    rows = _rows(rebuild_id, wanted)
    newer, has_newer = _cut(rows.filter(pk__gt=event_id).order_by("pk"), shown)
    return Log(tuple(newer), has_older=rows.filter(pk__lte=event_id).exists(), has_newer=has_newer)


def around(rebuild_id: int, event_id: int, wanted: LogFilter = ALL, *, shown: int = LINES_SHOWN) -> Log | None:
    """Return one event with the lines on both sides; ``None`` if it is not in this log. Three queries."""
    if not RebuildEvent.objects.filter(rebuild=rebuild_id, pk=event_id).exists():
        return None
    rows = _rows(rebuild_id, wanted)
    older, has_older = _cut(rows.filter(pk__lte=event_id).order_by("-pk"), shown // 2)
    newer, has_newer = _cut(rows.filter(pk__gt=event_id).order_by("pk"), shown // 2)
    return Log((*reversed(older), *newer), has_older=has_older, has_newer=has_newer)


def newer_lines(rebuild_id: int, event_id: int, *, shown: int = LINES_SHOWN) -> Log:
    """Return the newest of the lines after one event; ``has_older``: some between were left out. One query.

    A rebuild's events are written while its row is locked, so their keys grow in the order in which they become visible.
    """
    newest, has_older = _cut(_rows(rebuild_id, ALL).filter(pk__gt=event_id).order_by("-pk"), shown)
    return Log(tuple(reversed(newest)), has_older=has_older)


def matches(rebuild_id: int, wanted: LogFilter, *, shown: int = MATCHES_SHOWN) -> tuple[list[int], bool]:
    """Return the keys of the newest matching lines, oldest first, and whether there are more. One query."""
    found = list(_rows(rebuild_id, wanted).order_by("-pk").values_list("pk", flat=True)[: shown + 1])
    return found[:shown][::-1], len(found) > shown


def whole(rebuild_id: int) -> Iterator[RebuildEvent]:
    """Return every line, read a thousand at a time."""
    return _rows(rebuild_id, ALL).order_by("pk").iterator(1000)


def hosts_of(rebuild: Rebuild) -> list[str]:
    """Return the hosts of a rebuild read with ``find``, the target's first. No query."""
    return list(dict.fromkeys((rebuild.target.host.name, rebuild.source.host.name)))


def _rows(rebuild_id: int, wanted: LogFilter) -> QuerySet[RebuildEvent]:
    rows = RebuildEvent.objects.filter(rebuild=rebuild_id)
    if wanted.host:
        rows = rows.filter(host="" if wanted.host == OURS else wanted.host)
    if levels := LEVELS.get(wanted.level):
        rows = rows.filter(level__in=levels)
    if wanted.text:
        # `icontains` would not do: it is case-sensitive with MariaDB's binary collation.
        rows = rows.filter(Contains(Lower("text"), wanted.text.lower()))
    return rows


def _cut(rows: QuerySet[RebuildEvent], shown: int) -> tuple[list[RebuildEvent], bool]:
    found: list[RebuildEvent] = [*rows.annotate(step_title=STEP_TITLE)[: shown + 1]]
    return found[:shown], len(found) > shown
