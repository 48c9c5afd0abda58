"""What a rebuild may run beside: what each method says of each thing that may stand in its way, with the reason. Pure.

Each method names its own cells (``engine.methods``). The cells that methods share are here. ``script/docs`` writes the table of
``docs/reference/blockers.md`` from them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dbops.engine.states import BackupMethod


class Effect(StrEnum):
    """What something means for a rebuild that is asked for.

    ``blocks``: it must not start while this lasts, and asking for it now is refused. ``waits``: it may be asked for, is
    queued, and starts by itself when this has ended. ``beside``: it may start, with a warning.
    """

    BLOCKS = "blocks"
    WAITS = "waits"
    RUNS_ALONGSIDE = "beside"


class Activity(StrEnum):
    """What runs, is due, or is amiss."""

    SOURCE_DUMP_MANAGED = "managed dump of the source"
    SOURCE_DUMP_EXTERNAL = "external dump of the source"
    SOURCE_PHYSICAL_MANAGED = "managed physical backup of the source"
    SOURCE_PHYSICAL_EXTERNAL = "external physical backup of the source"
    SOURCE_READ = "another rebuild reads the source"
    SOURCE_REPLACED = "another rebuild replaces the source"
    TARGET_BACKUP = "backup of the target"
    TARGET_READ = "another rebuild reads the target"
    TARGET_REPLACED = "another rebuild replaces the target"
    AHEAD_MANAGED = "managed backup of the source is due before the end"
    AHEAD_EXTERNAL = "external backup of the source is due before the end"
    AHEAD_TARGET = "backup of the target is due before the end"
    SOURCE_DOWN = "source is down"
    SOURCE_LAGGING = "source does not replicate, or lags"
    NO_COPY = "no complete dump or archive"
    NO_SOURCE = "no source at all"
    MAINTENANCE = "maintenance"
    MAINTENANCE_AHEAD = "maintenance begins before the end"
    TOPOLOGY = "topology differs from the inventory"


@dataclass(frozen=True, slots=True)
class Conflict:
    """What one thing means for one method, and why."""

    effect: Effect
    reason: str


Conflicts = Mapping[Activity, Conflict]


class CopySource(StrEnum):
    """What a method reads. ``NOTHING``: it uses what is on the target."""

    SERVER = "server"
    PHYSICAL_BACKUP = "physical backup"
    DUMP = "dump"
    NOTHING = "nothing"

    @property
    def backup(self) -> BackupMethod | None:
        """The kind of finished backup that is read, ``None`` where none is."""
        return _BACKUPS.get(self)


_BACKUPS = {CopySource.PHYSICAL_BACKUP: BackupMethod.PHYSICAL, CopySource.DUMP: BackupMethod.DUMP}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MethodTraits:
    """What decides when a rebuild by a method may start.

    Args:
        name: as rows, forms and the command line have it.
        conflicts: what each activity means for it. An activity that is missing means nothing.
        reads: what it reads.
        is_follow_up: it uses what another rebuild left on the target.
    """

    name: str
    conflicts: Conflicts
    reads: CopySource = CopySource.SERVER
    is_follow_up: bool = False

    @property
    def reads_source(self) -> bool:
        """Whether it reads the source's running server, and so holds it."""
        return self.reads is CopySource.SERVER

    def may_start_beside(self, work: Activity) -> bool:
        found = self.conflicts.get(work)
        return found is None or found.effect is Effect.RUNS_ALONGSIDE


BLOCKS, WAITS, RUNS_ALONGSIDE = Effect.BLOCKS, Effect.WAITS, Effect.RUNS_ALONGSIDE
_NOT_THE_SERVER = Conflict(
    RUNS_ALONGSIDE, "It reads a finished backup, not the server: they share at most the disk on which it lies."
)

#: The same for every method.
FOR_EVERY_METHOD: Conflicts = {
    Activity.TARGET_BACKUP: Conflict(
        WAITS,
        "A rebuild stops the target's server, and with it the backup that reads it; nothing of that backup is of use.",
    ),
    Activity.TARGET_READ: Conflict(
        WAITS,
        "Another rebuild copies from this instance, and would lose its source.",
    ),
    Activity.TARGET_REPLACED: Conflict(
        BLOCKS,
        "An instance has one unfinished rebuild at a time: asking for a second one is refused.",
    ),
    Activity.AHEAD_TARGET: Conflict(
        RUNS_ALONGSIDE,
        "The target has no server, or one that catches up, when its backup is due: a managed one waits, another fails.",
    ),
    Activity.NO_SOURCE: Conflict(
        BLOCKS,
        "A rebuild reads another instance of the cluster than its primary, and there is none.",
    ),
    Activity.MAINTENANCE: Conflict(
        BLOCKS,
        "A person said that no rebuild of this cluster may start meanwhile.",
    ),
    Activity.MAINTENANCE_AHEAD: Conflict(
        RUNS_ALONGSIDE,
        "Only the start is forbidden: a rebuild that runs goes on into the maintenance.",
    ),
    Activity.TOPOLOGY: Conflict(
        BLOCKS,
        "The servers do not replicate as the inventory says: what would be read or wiped may not be what its name says.",
    ),
}
#: The same for every method that reads a running server.
FOR_A_SERVER: Conflicts = {
    **FOR_EVERY_METHOD,
    Activity.SOURCE_REPLACED: Conflict(
        WAITS,
        "There is no server to read until its own rebuild has ended.",
    ),
    Activity.AHEAD_MANAGED: Conflict(
        RUNS_ALONGSIDE,
        "The backup waits for the rebuild and runs after it: late, and not lost.",
    ),
    Activity.AHEAD_EXTERNAL: Conflict(
        RUNS_ALONGSIDE,
        "Nobody holds a cron job of somebody else: it starts in the middle of the copy. Both get slower, of two "
        "physical backups one may fail, and a dump with --dump-slave stops the source's replication.",
    ),
    Activity.SOURCE_DOWN: Conflict(
        BLOCKS,
        "The running server is what is copied.",
    ),
    Activity.SOURCE_LAGGING: Conflict(
        BLOCKS,
        "The copy is as old as the source, and must catch up from binary logs that are being removed meanwhile; "
        "the checks of the plan refuse it.",
    ),
}
#: The same for every method that reads a finished backup.
FOR_A_BACKUP: Conflicts = {
    **FOR_EVERY_METHOD,
    Activity.SOURCE_DUMP_MANAGED: _NOT_THE_SERVER,
    Activity.SOURCE_DUMP_EXTERNAL: _NOT_THE_SERVER,
    Activity.SOURCE_PHYSICAL_MANAGED: _NOT_THE_SERVER,
    Activity.SOURCE_PHYSICAL_EXTERNAL: _NOT_THE_SERVER,
    Activity.SOURCE_READ: _NOT_THE_SERVER,
    Activity.SOURCE_REPLACED: Conflict(
        RUNS_ALONGSIDE,
        "It reads a finished backup: the server that is being replaced is not asked.",
    ),
    Activity.AHEAD_MANAGED: _NOT_THE_SERVER,
    Activity.AHEAD_EXTERNAL: _NOT_THE_SERVER,
    Activity.SOURCE_DOWN: Conflict(
        RUNS_ALONGSIDE,
        "It reads a finished backup; the copy replicates from the primary afterwards.",
    ),
    Activity.SOURCE_LAGGING: Conflict(
        RUNS_ALONGSIDE,
        "It reads a finished backup, whatever the source has reached since.",
    ),
}
#: A job that is no rebuild from a source: it waits until the one instance that it uses is free.
ONE_INSTANCE = MethodTraits(
    name="",
    conflicts={
        work: Conflict(WAITS, "An instance is used by one job at a time.")
        for work in (
            Activity.SOURCE_DUMP_MANAGED,
            Activity.SOURCE_DUMP_EXTERNAL,
            Activity.SOURCE_PHYSICAL_MANAGED,
            Activity.SOURCE_PHYSICAL_EXTERNAL,
            Activity.SOURCE_READ,
            Activity.SOURCE_REPLACED,
        )
    },
)


def meaning_alongside(method: MethodTraits, *, is_target: bool, is_dump: bool) -> str:
    """Return in words what a backup that dbops did not start means for a rebuild that uses the same instance already."""
    work = Activity.TARGET_BACKUP if is_target else of_backup(is_dump=is_dump, is_managed=False)
    judged = method.conflicts.get(work)
    return judged.reason if judged else ""


def of_backup(*, is_dump: bool, is_managed: bool) -> Activity:
    """Return which row speaks of a backup that reads the source."""
    if is_dump:
        return Activity.SOURCE_DUMP_MANAGED if is_managed else Activity.SOURCE_DUMP_EXTERNAL
    return Activity.SOURCE_PHYSICAL_MANAGED if is_managed else Activity.SOURCE_PHYSICAL_EXTERNAL
