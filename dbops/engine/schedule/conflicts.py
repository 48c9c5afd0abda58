"""Conflict matrix: for each method and activity, whether a rebuild is blocked, waits, or runs alongside.

Each method defines its own cells (``engine.methods``). Shared cells are here. ``script/docs`` writes the table of
``docs/reference/blockers.md`` from them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dbops.engine.phrases import phrase
from dbops.engine.states import BackupMethod


class Effect(StrEnum):
    """The effect of an activity on a rebuild.

    ``blocks``: a request is refused while the activity lasts. ``waits``: the rebuild is queued and starts automatically
    when the activity ends. ``alongside``: the rebuild starts, with a warning.
    """

    BLOCKS = "blocks"
    WAITS = "waits"
    RUNS_ALONGSIDE = "alongside"


class Activity(StrEnum):
    """An activity or a condition that may conflict with a rebuild."""

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
    """The effect of one activity on one method, and the reason."""

    effect: Effect
    reason: str


Conflicts = Mapping[Activity, Conflict]


class CopySource(StrEnum):
    """What a method reads. ``NOTHING``: it uses the data on the target."""

    SERVER = "server"
    PHYSICAL_BACKUP = "physical backup"
    DUMP = "dump"
    NOTHING = "nothing"

    @property
    def backup(self) -> BackupMethod | None:
        """The kind of finished backup that is read, ``None`` if none is."""
        return _BACKUPS.get(self)


_BACKUPS = {CopySource.PHYSICAL_BACKUP: BackupMethod.PHYSICAL, CopySource.DUMP: BackupMethod.DUMP}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MethodTraits:
    """The attributes of a method that decide when its rebuilds may start.

    Args:
        name: as in rows, forms and on the command line.
        conflicts: the effect of each activity. A missing activity has no effect.
        reads: what it reads.
        is_follow_up: it uses the data that another rebuild left on the target.
    """

    name: str
    conflicts: Conflicts
    reads: CopySource = CopySource.SERVER
    is_follow_up: bool = False

    @property
    def reads_source(self) -> bool:
        """Whether it reads the source's running server, and so takes a hold on it."""
        return self.reads is CopySource.SERVER

    def may_start_alongside(self, work: Activity) -> bool:
        found = self.conflicts.get(work)
        return found is None or found.effect is Effect.RUNS_ALONGSIDE


BLOCKS, WAITS, RUNS_ALONGSIDE = Effect.BLOCKS, Effect.WAITS, Effect.RUNS_ALONGSIDE
_NOT_THE_SERVER = Conflict(
    RUNS_ALONGSIDE, phrase("The method reads a finished backup, not the server. At most they share a disk.")
)

#: Conflicts of every method.
FOR_EVERY_METHOD: Conflicts = {
    Activity.TARGET_BACKUP: Conflict(
        WAITS,
        phrase("A rebuild stops the target's server, which ends its backup."),
    ),
    Activity.TARGET_READ: Conflict(
        WAITS,
        phrase("Another rebuild reads this instance and would lose its source."),
    ),
    Activity.TARGET_REPLACED: Conflict(
        BLOCKS,
        phrase("An instance can have only one unfinished rebuild. A second request is refused."),
    ),
    Activity.AHEAD_TARGET: Conflict(
        RUNS_ALONGSIDE,
        phrase(
            "The target's server is down or catching up when its backup is due. A managed backup waits; an "
            "external one fails."
        ),
    ),
    Activity.NO_SOURCE: Conflict(
        BLOCKS,
        phrase("A rebuild needs a source other than the primary."),
    ),
    Activity.MAINTENANCE: Conflict(
        BLOCKS,
        phrase("No rebuild of this cluster may start during maintenance."),
    ),
    Activity.MAINTENANCE_AHEAD: Conflict(
        RUNS_ALONGSIDE,
        phrase("Maintenance only prevents starts: a running rebuild continues."),
    ),
    Activity.TOPOLOGY: Conflict(
        BLOCKS,
        phrase("The servers do not replicate as in the inventory: dbops could read or wipe the wrong instance."),
    ),
}
#: Conflicts of every method that reads a running server.
FOR_A_SERVER: Conflicts = {
    **FOR_EVERY_METHOD,
    Activity.SOURCE_REPLACED: Conflict(
        WAITS,
        phrase("The source has no server to read until its own rebuild ends."),
    ),
    Activity.AHEAD_MANAGED: Conflict(
        RUNS_ALONGSIDE,
        phrase("The backup waits for the rebuild and runs after it."),
    ),
    Activity.AHEAD_EXTERNAL: Conflict(
        RUNS_ALONGSIDE,
        phrase(
            "dbops can't hold back an external cron job: it starts during the copy. Both get slower, one of two "
            "physical backups may fail, and a dump with --dump-slave stops the source's replication."
        ),
    ),
    Activity.SOURCE_DOWN: Conflict(
        BLOCKS,
        phrase("The method copies the running server."),
    ),
    Activity.SOURCE_LAGGING: Conflict(
        BLOCKS,
        phrase(
            "The copy would be as old as the source and might need binary logs that are already removed. The "
            "pre-flight checks refuse it."
        ),
    ),
}
#: Conflicts of every method that reads a finished backup.
FOR_A_BACKUP: Conflicts = {
    **FOR_EVERY_METHOD,
    Activity.SOURCE_DUMP_MANAGED: _NOT_THE_SERVER,
    Activity.SOURCE_DUMP_EXTERNAL: _NOT_THE_SERVER,
    Activity.SOURCE_PHYSICAL_MANAGED: _NOT_THE_SERVER,
    Activity.SOURCE_PHYSICAL_EXTERNAL: _NOT_THE_SERVER,
    Activity.SOURCE_READ: _NOT_THE_SERVER,
    Activity.SOURCE_REPLACED: Conflict(
        RUNS_ALONGSIDE,
        phrase("The method reads a finished backup, not the server that is being replaced."),
    ),
    Activity.AHEAD_MANAGED: _NOT_THE_SERVER,
    Activity.AHEAD_EXTERNAL: _NOT_THE_SERVER,
    Activity.SOURCE_DOWN: Conflict(
        RUNS_ALONGSIDE,
        phrase("The method reads a finished backup. The copy replicates from the primary afterwards."),
    ),
    Activity.SOURCE_LAGGING: Conflict(
        RUNS_ALONGSIDE,
        phrase("The method reads a finished backup. The state of the source does not matter."),
    ),
}
#: Conflicts of a job on one instance: it waits until the instance is free.
ONE_INSTANCE = MethodTraits(
    name="",
    conflicts={
        work: Conflict(WAITS, phrase("One job at a time uses an instance."))
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
    """Return the effect of an external backup on a rebuild that already uses the instance, as text."""
    work = Activity.TARGET_BACKUP if is_target else of_backup(is_dump=is_dump, is_managed=False)
    judged = method.conflicts.get(work)
    return judged.reason if judged else ""


def of_backup(*, is_dump: bool, is_managed: bool) -> Activity:
    """Return the activity of a backup that reads the source."""
    if is_dump:
        return Activity.SOURCE_DUMP_MANAGED if is_managed else Activity.SOURCE_DUMP_EXTERNAL
    return Activity.SOURCE_PHYSICAL_MANAGED if is_managed else Activity.SOURCE_PHYSICAL_EXTERNAL
