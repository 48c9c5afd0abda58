"""Compute the intervals of rebuilds: what they waited for, did and used."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from dbops.engine.availability.record import Cause, OccupiedPeriod, RebuildPhase
from dbops.engine.phrases import phrase
from dbops.engine.schedule.calendar import Interval, clip, free, merge
from dbops.engine.states import Status

#: Causes of step times; all other steps are ``Cause.OTHER_STEPS``.
STEP_CAUSES = {"stream": Cause.STREAM, "prepare": Cause.PREPARE, "catch-up": Cause.CATCH_UP}
#: The source is released at the end of the first step, and paused from the start of the second.
RELEASE, PAUSE = "release", "pause"


@dataclass(frozen=True, slots=True)
class StepInterval:
    """The time of a step; ``finished_at`` is ``None`` while it runs."""

    name: str
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class RebuildIntervals:
    """The times of one rebuild.

    ``pauses``: its plan paused the source's replication. ``reads_source``: it holds its source and waits for it.
    ``needs_approval``: it was requested where approval is required; ``decided_at`` is the time of approval or
    decline.
    """

    number: int
    target: str
    source: str
    status: Status
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    pauses: bool
    steps: tuple[StepInterval, ...]
    needs_approval: bool = False
    decided_at: datetime | None = None
    reads_source: bool = True


def occupied(lives: Iterable[RebuildIntervals], now: datetime, blocks: frozenset[str]) -> list[OccupiedPeriod]:
    """Return what rebuilds used: the target throughout, the source until its release, and the pause of the source.

    A roll-back reads no source.

    Args:
        blocks: by which methods no rebuild starts from an instance that another rebuild uses.
    """
    found: list[OccupiedPeriod] = []
    for life in lives:
        if life.started_at is None:
            continue
        reference = phrase("rebuild {number}", number=life.number)
        end = _end(life.finished_at, now)
        found.append(_use(life.target, life.started_at, end, reference, blocks))
        if not life.reads_source:
            continue
        released = min(end, _of_step(life, RELEASE, end))
        found.append(_use(life.source, life.started_at, released, reference, blocks))
        paused_at = next((step.started_at for step in life.steps if step.name == PAUSE), None)
        if life.pauses and paused_at and paused_at < released:
            found.append(
                OccupiedPeriod(
                    life.source, Interval(paused_at, released), Cause.REBUILD, reference, frozenset(), pauses=True
                )
            )
    return [item for item in found if item.interval.seconds]


def _use(instance: str, start: datetime, end: datetime, reference: str, blocks: frozenset[str]) -> OccupiedPeriod:
    return OccupiedPeriod(instance, Interval(start, max(start, end)), Cause.REBUILD, reference, blocks)


def _of_step(life: RebuildIntervals, name: str, unknown: datetime) -> datetime:
    return next((step.finished_at for step in life.steps if step.name == name and step.finished_at), unknown)


def _end(moment: datetime | None, now: datetime) -> datetime:
    return moment or now


def phases(lives: Sequence[RebuildIntervals], uses: Iterable[OccupiedPeriod], now: datetime) -> list[RebuildPhase]:
    """Return the phases of each rebuild, and the time from a failed rebuild to the next request.

    Args:
        uses: of the same cluster, backups and rebuilds: what a queued rebuild waited for is what used its source.
    """
    by_instance: dict[str, list[OccupiedPeriod]] = defaultdict(list)
    for use in uses:
        by_instance[use.instance].append(use)
    found: list[RebuildPhase] = []
    for life in lives:
        ends = {life.target, life.source} if life.reads_source else {life.target}
        found += _waiting(life, [use for name in sorted(ends) for use in by_instance[name]], now)
        found += _working(life, now)
    return [*found, *_between_tries(lives, now)]


def _waiting(life: RebuildIntervals, uses: Iterable[OccupiedPeriod], now: datetime) -> Iterator[RebuildPhase]:
    whole = Interval(life.requested_at, max(life.requested_at, life.started_at or _end(life.finished_at, now)))
    others = [use for use in uses if use.reference != f"rebuild {life.number}" and use.blocks]
    left = [whole]
    if life.needs_approval:
        # regardless of other blockers, the rebuild could not start
        decided = min(whole.end, life.decided_at or whole.end)
        yield from (_phase(life, Cause.APPROVAL, item) for item in [Interval(whole.start, decided)] if item.seconds)
        left = [Interval(decided, whole.end)]
    for cause, of in ((Cause.WINDOW, Cause.BACKUP), (Cause.LINE, Cause.REBUILD)):
        busy = merge(use.interval for use in others if use.cause is of)
        for part in left:
            yield from (_phase(life, cause, item) for item in clip(busy, part))
        left = [item for part in left for item in free(busy, part)]
    yield from (_phase(life, Cause.QUEUE, item) for item in left if item.seconds)


def _working(life: RebuildIntervals, now: datetime) -> Iterator[RebuildPhase]:
    if life.started_at is None:
        return
    whole = Interval(life.started_at, max(life.started_at, _end(life.finished_at, now)))
    explained: list[Interval] = []
    for step in life.steps:
        interval = Interval(step.started_at, max(step.started_at, _end(step.finished_at, whole.end)))
        cause = STEP_CAUSES.get(step.name)
        if cause and interval.seconds:
            explained.append(interval)
            yield _phase(life, cause, interval)
    yield from (_phase(life, Cause.OTHER_STEPS, item) for item in free(explained, whole))


def _between_tries(lives: Sequence[RebuildIntervals], now: datetime) -> Iterator[RebuildPhase]:
    by_target: dict[str, list[RebuildIntervals]] = defaultdict(list)
    for life in sorted(lives, key=lambda one: (one.requested_at, one.number)):
        by_target[life.target].append(life)
    for row in by_target.values():
        for life, following in zip(row, [*row[1:], None], strict=True):
            until = following.requested_at if following else now
            if (
                life.started_at
                and life.finished_at
                and life.status is not Status.SUCCEEDED
                and until > life.finished_at
            ):
                yield _phase(life, Cause.RETRY, Interval(life.finished_at, until))


def _phase(life: RebuildIntervals, cause: Cause, interval: Interval) -> RebuildPhase:
    return RebuildPhase(life.number, life.target, life.source, cause, interval)
