"""A blocker: a reason why a rebuild cannot start, from the conflicts of its method."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dbops.engine.phrases import phrase
from dbops.engine.schedule.backup_windows import TimeEstimate
from dbops.engine.schedule.conflicts import Activity, Effect, MethodTraits


class BlockerKind(StrEnum):
    """The kind of a blocker."""

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


class Timing(StrEnum):
    """The timing of a job or a backup window."""

    RUNNING = "running"
    QUEUED = "queued"
    UNAPPROVED = "unapproved"
    EXPECTED = "expected"  # a window in which the backup is expected to run at the requested moment
    DUE = "due"  # before the likely end of the rebuild
    DUE_IF_LATE = "due-if-late"  # only before its late end
    DUE_OR_NOT = "due-or-not"  # the duration of the rebuild is unknown
    UNSEEN = "unseen"  # due now, and not detected yet


class Remedy(StrEnum):
    """What ends a blocker."""

    ADD_SOURCE = "add-source"
    FIX_INVENTORY = "fix-inventory"
    END_MAINTENANCE = "end-maintenance"
    FIX_SERVER = "fix-server"
    CATCH_UP = "catch-up"
    MAKE_BACKUP = "make-backup"
    DECIDE_APPROVAL = "decide-approval"
    CANCEL_REBUILD = "cancel-rebuild"
    STOP_RUN = "stop-run"
    ASK_OWNER = "ask-owner"
    CHANGE_SCHEDULE = "change-schedule"
    CHANGE_CRON = "change-cron"


class Certainty(StrEnum):
    """The certainty of the end: set by a person, estimated from earlier runs, or unknown."""

    KNOWN = "known"
    PREDICTED = "predicted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason why a rebuild cannot start. Texts contain no clock times: pages show times in their own time zone.

    Args:
        work: the activity; ``reason`` is the text of the method's conflict.
        text: the blocker in one sentence.
        since: its begin, in the future for a later window; ``None`` if unknown.
        until: its expected end, never before the moment in question.
        clears: who can end it.
        remedy: what ends it.
        timing: of a job or a window; ``None`` for anything else.
        run: the backup run, if it is one; ``rebuild`` likewise.
    """

    kind: BlockerKind
    work: Activity
    instance: str
    text: str
    since: datetime | None
    until: TimeEstimate
    certainty: Certainty
    effect: Effect
    reason: str
    clears: str
    remedy: Remedy
    timing: Timing | None = None
    run: int | None = None
    rebuild: int | None = None

    @property
    def stops(self) -> bool:
        """Whether it prevents the start of a rebuild."""
        return self.effect is not Effect.RUNS_ALONGSIDE


NO_END_KNOWN = TimeEstimate(None, None, phrase("no end can be estimated"))


def make_blocker(
    kind: BlockerKind,
    work: Activity,
    method: MethodTraits,
    *,
    text: str,
    clears: str,
    remedy: Remedy,
    timing: Timing | None = None,
    instance: str = "",
    since: datetime | None = None,
    until: TimeEstimate = NO_END_KNOWN,
    certainty: Certainty | None = None,
    run: int | None = None,
    rebuild: int | None = None,
) -> Iterator[Blocker]:
    """Yield the blocker, or nothing if the method has no conflict with the activity."""
    judged = method.conflicts.get(work)
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
        remedy=remedy,
        timing=timing,
        run=run,
        rebuild=rebuild,
    )
