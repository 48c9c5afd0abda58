"""One thing that keeps a rebuild from starting, judged by ``effects.TABLE``. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dbops.engine.schedule.backup_windows import End
from dbops.engine.schedule.conflicts import Effect, Work, cell


class Kind(StrEnum):
    """Which kind of thing stands in the way."""

    BACKUP_RUNNING = "backup running"
    WINDOW_AHEAD = "backup window"
    HELD = "held by a rebuild"
    TARGET_BUSY = "target busy"
    SOURCE_DOWN = "source down"
    SOURCE_LAGGING = "source lagging"
    NO_COPY = "no complete backup"
    NO_SOURCE = "no source"
    MAINTENANCE = "maintenance"
    TOPOLOGY = "topology differs"


class Certainty(StrEnum):
    """How sure the end is: a person set it, earlier runs say so, or nobody knows."""

    KNOWN = "known"
    PREDICTED = "predicted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing in the way of a rebuild. Text holds no clock times: pages show them in their own time zone.

    Args:
        work: the row of ``effects.TABLE`` that it was judged by; ``reason`` is that cell's.
        text: what it is, one sentence.
        since: when it began (or begins, where it lies ahead); ``None`` where nobody noted it.
        until: when it is expected to end. Never in the past of the moment that was asked for.
        clears: who can end it.
        run: the backup run, ``rebuild`` the rebuild that it is, where it is one.
    """

    kind: Kind
    work: Work
    instance: str
    text: str
    since: datetime | None
    until: End
    certainty: Certainty
    effect: Effect
    reason: str
    clears: str
    run: int | None = None
    rebuild: int | None = None

    @property
    def stops(self) -> bool:
        """Tell whether a rebuild cannot start beside it."""
        return self.effect is not Effect.BESIDE


NOBODY_KNOWS = End(None, None, "nobody can say when")


def make(
    kind: Kind,
    work: Work,
    method: str,
    *,
    text: str,
    clears: str,
    instance: str = "",
    since: datetime | None = None,
    until: End = NOBODY_KNOWS,
    certainty: Certainty | None = None,
    run: int | None = None,
    rebuild: int | None = None,
) -> Iterator[Blocker]:
    """Yield the blocker, or nothing where it means nothing for the method."""
    judged = cell(method, work)
    if judged is None:
        return
    guess = Certainty.PREDICTED if until.is_known else Certainty.UNKNOWN
    yield Blocker(
        kind=kind,
        work=work,
        instance=instance,
        text=text,
        since=since,
        until=until,
        certainty=certainty or guess,
        effect=judged.effect,
        reason=judged.reason,
        clears=clears,
        run=run,
        rebuild=rebuild,
    )
