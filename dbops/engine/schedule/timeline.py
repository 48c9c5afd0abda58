"""Build the timeline of a cluster: past and running jobs, backup windows, and when a rebuild can start.

The future comes from ``blockers`` moment by moment, so the drawing always agrees with the eligibility.
The past comes from rows: a source was busy while a backup or a rebuild used it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dbops.engine.phrases import phrase
from dbops.engine.schedule.blocker import Blocker
from dbops.engine.schedule.blockers import find_blockers
from dbops.engine.schedule.calendar import Interval, clip, common, free, merge
from dbops.engine.schedule.conflicts import MethodTraits
from dbops.engine.schedule.eligibility import sources_of
from dbops.engine.schedule.occupancy import Reservation, reservations_of
from dbops.engine.schedule.snapshot import ClusterSnapshot

#: Free time shorter than this is left out: its begin and its end are the same time of the day.
SHORTEST_SECONDS = 60


class BarKind(StrEnum):
    """The meaning of a bar."""

    BACKUP = "backup"
    WINDOW = "window"
    REBUILD = "rebuild"
    MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """One bar of the timeline.

    Args:
        instance: the row that the bar is in; ``""`` for the whole cluster.
        busy: other instances that it uses.
        interval: the past time, or the likely part of an expected one.
        tail: from the likely to the late end.
        is_open: its end is unknown: ``interval`` reaches to the edge, as it may block until there.
        status: of the run or the rebuild.
    """

    kind: BarKind
    instance: str
    interval: Interval
    title: str
    status: str = ""
    tail: Interval | None = None
    is_open: bool = False
    busy: tuple[str, ...] = ()
    run: int | None = None
    rebuild: int | None = None

    @property
    def whole(self) -> Interval:
        return Interval(self.interval.start, self.tail.end) if self.tail else self.interval


@dataclass(frozen=True, slots=True)
class BlockedPeriod:
    """An interval in which no rebuild can start, with the reasons."""

    interval: Interval
    why: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Time by availability: ``blocked`` was or is likely blocked, ``perhaps`` is blocked only by the p90; ``free`` is the rest."""

    within: Interval
    now: datetime
    bars: tuple[TimelineBar, ...]
    blocked: tuple[BlockedPeriod, ...]
    perhaps: tuple[Interval, ...]
    free: tuple[Interval, ...]

    @property
    def windows(self) -> list[TimelineBar]:
        """The backups that are due in the timeline."""
        return [bar for bar in self.bars if bar.kind is BarKind.WINDOW and self.within.start <= bar.interval.start]

    @property
    def free_ahead(self) -> list[Interval]:
        """The free time from now, without intervals shorter than a clock shows."""
        ahead = Interval(min(max(self.now, self.within.start), self.within.end), self.within.end)
        return [slot for slot in clip(self.free, ahead) if slot.seconds >= SHORTEST_SECONDS]

    def part(self, within: Interval) -> "Timeline":
        """Return the part of the timeline in an interval, for example one day."""
        return Timeline(
            within=within,
            now=self.now,
            bars=tuple(bar for bar in self.bars if bar.whole.meets(within)),
            blocked=tuple(
                BlockedPeriod(part, item.why)
                for item in self.blocked
                if (part := item.interval.within(within)) is not None
            ),
            perhaps=tuple(clip(self.perhaps, within)),
            free=tuple(clip(self.free, within)),
        )


def timeline(
    snapshot: ClusterSnapshot, history: Iterable[TimelineBar], within: Interval, *, method: MethodTraits
) -> Timeline:
    """Return the timeline of an interval.

    Args:
        picture: the snapshot of the cluster; its windows must reach as far as ``within``.
        history: ended jobs and past maintenance. Active ones are in the snapshot.
    """
    past = [bar for bar in history if bar.whole.meets(within)]
    if snapshot.is_tidb:
        return Timeline(within=within, now=snapshot.now, bars=tuple(past), blocked=(), perhaps=(), free=())
    used = reservations_of(snapshot)
    bars = [*past, *_running(used, within), *_windows(snapshot, within)]
    behind = [BlockedPeriod(item, phrase("source busy or maintenance")) for item in _behind(snapshot, past, within)]
    likely = _ahead(snapshot, used, within, method, late=False)
    late = merge([item.interval for item in _ahead(snapshot, used, within, method, late=True)])
    blocked = [*behind, *likely]
    perhaps = free([item.interval for item in blocked], within)
    perhaps = [part for gap in perhaps for part in clip(late, gap)]
    return Timeline(
        within=within,
        now=snapshot.now,
        bars=tuple(sorted(bars, key=lambda bar: (bar.interval, bar.instance))),
        blocked=tuple(blocked),
        perhaps=tuple(perhaps),
        free=tuple(free([*(item.interval for item in blocked), *perhaps], within)),
    )


def can_start(snapshot: ClusterSnapshot, method: MethodTraits) -> bool:
    """Return whether a rebuild can start now, without computing when else. For lists of a thousand clusters."""
    sources = sources_of(snapshot) or (None,)
    return _stopping(snapshot, reservations_of(snapshot), sources, method, snapshot.now, late=False) is None


def _behind(snapshot: ClusterSnapshot, past: Sequence[TimelineBar], within: Interval) -> list[Interval]:
    """Return when no source was free, or maintenance was announced, until now."""
    until = min(snapshot.now, within.end)
    if until <= within.start:
        return []
    before = Interval(within.start, until)
    started = [
        TimelineBar(BarKind.BACKUP, name, Interval(min(job.started_at, until), until), "", busy=(name,))
        for job in snapshot.jobs
        if job.started_at
        for name, _ in job.claims
    ]
    everything = [*past, *started]
    busy = [
        [bar.whole for bar in everything if name == bar.instance or name in bar.busy] for name in sources_of(snapshot)
    ]
    stopped = [bar.whole for bar in past if bar.kind is BarKind.MAINTENANCE]
    # Without a source no rebuild is possible, and whether there was one in the past is unknown.
    return merge(clip([*(common(busy, before) if busy else [before]), *stopped], before))


def _ahead(
    snapshot: ClusterSnapshot, used: tuple[Reservation, ...], within: Interval, method: MethodTraits, *, late: bool
) -> list[BlockedPeriod]:
    """Compute the blockers at each moment at which something may change; between two such moments they stay the same."""
    begin = max(snapshot.now, within.start)
    if begin >= within.end:
        return []
    moments = sorted({begin, *(moment for moment in _changes(snapshot, used) if begin < moment < within.end)})
    sources = sources_of(snapshot) or (None,)
    found: list[BlockedPeriod] = []
    for moment, after in zip(moments, [*moments[1:], within.end], strict=True):
        blocker = _stopping(snapshot, used, sources, method, moment, late=late)
        if blocker is None:
            continue
        if found and found[-1].interval.end == moment and found[-1].why == blocker.text:
            found[-1] = BlockedPeriod(Interval(found[-1].interval.start, after), blocker.text)
        else:
            found.append(BlockedPeriod(Interval(moment, after), blocker.text))
    return found


def _stopping(
    snapshot: ClusterSnapshot,
    used: tuple[Reservation, ...],
    sources: Sequence[str | None],
    method: MethodTraits,
    moment: datetime,
    *,
    late: bool,
) -> Blocker | None:
    """Return the blockers of a rebuild from the first source; ``None`` as soon as one source is free."""
    first: Blocker | None = None
    for source in sources:
        found = find_blockers(snapshot, used, target=None, source=source, method=method, moment=moment, late=late)
        stopping = next((blocker for blocker in found if blocker.stops), None)
        if stopping is None:
            return None
        first = first or stopping
    return first


def _changes(snapshot: ClusterSnapshot, used: tuple[Reservation, ...]) -> Iterable[datetime]:
    for stay in used:
        yield from (moment for moment in (stay.begins, stay.end.p50, stay.end.p90) if moment)
    for window in snapshot.windows:
        yield from (moment for moment in (window.starts_at, window.ends_p50, window.ends_p90) if moment)
    for stop in snapshot.stops:
        yield from (moment for moment in (stop.starts_at, stop.ends_at) if moment)


def _running(used: Iterable[Reservation], within: Interval) -> Iterable[TimelineBar]:
    """Yield the bars of a job. A rebuild has one on the row of each instance that it uses."""
    for stay in used:
        start = stay.job.started_at
        if start is None:
            continue
        likely, late = stay.end.p50, stay.end.p90
        interval = Interval(start, max(start, likely or within.end))
        if not interval.meets(within):
            continue
        yield TimelineBar(
            kind=BarKind.REBUILD if stay.job.rebuild is not None else BarKind.BACKUP,
            instance=stay.instance,
            interval=interval,
            title=stay.job.name,
            status="lost" if stay.job.is_lost else "running",
            tail=Interval(interval.end, late) if likely and late and late > interval.end else None,
            is_open=likely is None,
            run=stay.job.run,
            rebuild=stay.job.rebuild,
        )


def _windows(snapshot: ClusterSnapshot, within: Interval) -> Iterable[TimelineBar]:
    for window in snapshot.windows:
        if window.starts_at <= snapshot.now:
            continue  # a window due by now is a run, or late: rows contain it
        likely, late = window.ends_p50, window.ends_p90
        interval = Interval(window.starts_at, likely or max(window.starts_at, within.end))
        bar = TimelineBar(
            kind=BarKind.WINDOW,
            instance=window.instance,
            interval=interval,
            title=window.schedule,
            status="planned",
            tail=Interval(interval.end, late) if likely and late and late > interval.end else None,
            is_open=likely is None,
        )
        if bar.whole.meets(within):
            yield bar
