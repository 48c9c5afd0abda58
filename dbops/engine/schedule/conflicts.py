"""What a rebuild may run beside: a cell for each method and each thing that may stand in its way, with the reason. Pure.

``script/docs`` writes the table of ``docs/blockers.md`` from it.
"""

from dataclasses import dataclass
from enum import StrEnum


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


METHODS = ("xbstream", "clone", "archive", "dump")
#: The column of the table for each method. Follow-ups continue or undo a copy, and have no column of their own.
_JUDGED_AS = {**{method: method for method in METHODS}, "retry": "xbstream", "rollback": "xbstream"}


@dataclass(frozen=True, slots=True)
class Conflict:
    """What one thing means for one method, and why."""

    effect: Effect
    reason: str


def _cells(**given: tuple[Effect, str]) -> dict[str, Conflict]:
    """Return cells by method; a name like ``xbstream_clone`` stands for several."""
    return {method: Conflict(*cell) for names, cell in given.items() for method in names.split("_")}


def _all(effect: Effect, reason: str) -> dict[str, Conflict]:
    return {method: Conflict(effect, reason) for method in METHODS}


BLOCKS, WAITS, RUNS_ALONGSIDE = Effect.BLOCKS, Effect.WAITS, Effect.RUNS_ALONGSIDE
_NOT_THE_SERVER = "It reads a finished backup, not the server: they share at most the disk on which it lies."

TABLE: dict[Activity, dict[str, Conflict]] = {
    Activity.SOURCE_DUMP_MANAGED: _cells(
        xbstream=(
            WAITS,
            "Both read every page of the source: each slows the other, and a slower stream is overtaken by the redo log. "
            "Both hold the instance.",
        ),
        clone=(
            WAITS,
            "Both read every page of the source, the clone without a limit, while the dump's long transaction "
            "keeps every old row version. Both hold the instance.",
        ),
        archive=(RUNS_ALONGSIDE, _NOT_THE_SERVER),
        dump=(
            RUNS_ALONGSIDE,
            "A managed dump gets its final name when it is complete: the one before it is read meanwhile, from the same disk.",
        ),
    ),
    Activity.SOURCE_DUMP_EXTERNAL: _cells(
        xbstream=(
            WAITS,
            "Both read every page of the source: each slows the other, and a slower stream is overtaken by the redo log. "
            "Where the copy ends with FLUSH TABLES WITH READ LOCK, that waits for the dump's running SELECT and holds up "
            "replication; a dump with --dump-slave starts the source's replication again while we have it paused.",
        ),
        clone=(
            WAITS,
            "Both read every page of the source, the clone without a limit, while the dump's long transaction "
            "keeps every old row version.",
        ),
        archive=(RUNS_ALONGSIDE, _NOT_THE_SERVER),
        dump=(
            WAITS,
            "What is being written is not complete, and a dump of somebody else may overwrite the last complete one as it "
            "goes: only after its end is there a complete dump.",
        ),
    ),
    Activity.SOURCE_PHYSICAL_MANAGED: _cells(
        xbstream=(
            WAITS,
            "One server makes one physical backup at a time: MariaDB lets one session into BACKUP STAGE and the second "
            "one waits or fails; with xtrabackup both read every page and follow the redo log twice.",
        ),
        clone=(WAITS, "Both read every page of the source, the clone without a limit. Both hold the instance."),
        archive_dump=(RUNS_ALONGSIDE, _NOT_THE_SERVER),
    ),
    Activity.SOURCE_PHYSICAL_EXTERNAL: _cells(
        xbstream=(
            WAITS,
            "One server makes one physical backup at a time: MariaDB lets one session into BACKUP STAGE and the second "
            "one waits or fails, which may be the backup of tonight; with xtrabackup both follow the redo log, and "
            "--safe-slave-backup starts the source's replication again while we have it paused.",
        ),
        clone=(
            WAITS,
            "Both read every page of the source, the clone without a limit, and tonight's backup comes late.",
        ),
        archive_dump=(RUNS_ALONGSIDE, _NOT_THE_SERVER),
    ),
    Activity.SOURCE_READ: _cells(
        xbstream=(
            WAITS,
            "One job at a time on each source: it is read at full speed, and its replication may be paused for the other one.",
        ),
        clone=(WAITS, "One job at a time on each source, and a donor serves one clone at a time."),
        archive_dump=(RUNS_ALONGSIDE, _NOT_THE_SERVER),
    ),
    Activity.SOURCE_REPLACED: _cells(
        xbstream_clone=(WAITS, "There is no server to read until its own rebuild has ended."),
        archive_dump=(RUNS_ALONGSIDE, "It reads a finished backup: the server that is being replaced is not asked."),
    ),
    Activity.TARGET_BACKUP: _all(
        WAITS,
        "A rebuild stops the target's server, and with it the backup that reads it; nothing of that backup is of use.",
    ),
    Activity.TARGET_READ: _all(WAITS, "Another rebuild copies from this instance, and would lose its source."),
    Activity.TARGET_REPLACED: _all(
        BLOCKS, "An instance has one unfinished rebuild at a time: asking for a second one is refused."
    ),
    Activity.AHEAD_MANAGED: _cells(
        xbstream_clone=(RUNS_ALONGSIDE, "The backup waits for the rebuild and runs after it: late, and not lost."),
        archive_dump=(RUNS_ALONGSIDE, _NOT_THE_SERVER),
    ),
    Activity.AHEAD_EXTERNAL: _cells(
        xbstream_clone=(
            RUNS_ALONGSIDE,
            "Nobody holds a cron job of somebody else: it starts in the middle of the copy. Both get slower, of two "
            "physical backups one may fail, and a dump with --dump-slave stops the source's replication.",
        ),
        archive_dump=(RUNS_ALONGSIDE, _NOT_THE_SERVER),
    ),
    Activity.AHEAD_TARGET: _all(
        RUNS_ALONGSIDE,
        "The target has no server, or one that catches up, when its backup is due: a managed one waits, another fails.",
    ),
    Activity.SOURCE_DOWN: _cells(
        xbstream_clone=(BLOCKS, "The running server is what is copied."),
        archive_dump=(RUNS_ALONGSIDE, "It reads a finished backup; the copy replicates from the primary afterwards."),
    ),
    Activity.SOURCE_LAGGING: _cells(
        xbstream_clone=(
            BLOCKS,
            "The copy is as old as the source, and must catch up from binary logs that are being removed meanwhile; "
            "the checks of the plan refuse it.",
        ),
        archive_dump=(RUNS_ALONGSIDE, "It reads a finished backup, whatever the source has reached since."),
    ),
    Activity.NO_COPY: _cells(
        archive=(BLOCKS, "There is no complete physical backup to read."),
        dump=(BLOCKS, "There is no complete dump to read."),
    ),
    Activity.NO_SOURCE: _all(
        BLOCKS, "A rebuild reads another instance of the cluster than its primary, and there is none."
    ),
    Activity.MAINTENANCE: _all(BLOCKS, "A person said that no rebuild of this cluster may start meanwhile."),
    Activity.MAINTENANCE_AHEAD: _all(
        RUNS_ALONGSIDE, "Only the start is forbidden: a rebuild that runs goes on into the maintenance."
    ),
    Activity.TOPOLOGY: _all(
        BLOCKS,
        "The servers do not replicate as the inventory says: what would be read or wiped may not be what its name says.",
    ),
}


def conflict_of(method: str, work: Activity) -> Conflict | None:
    """Return what ``work`` means for a method or a follow-up, ``None`` where it means nothing. Raises ``KeyError``."""
    return TABLE[work].get(_JUDGED_AS[method])


def meaning_alongside(method: str, *, is_target: bool, is_dump: bool) -> str:
    """Return in words what a backup that dbops did not start means for a rebuild that uses the same instance already."""
    work = Activity.TARGET_BACKUP if is_target else of_backup(is_dump=is_dump, is_managed=False)
    judged = conflict_of(method, work)
    return judged.reason if judged else ""


def of_backup(*, is_dump: bool, is_managed: bool) -> Activity:
    """Return which row speaks of a backup that reads the source."""
    if is_dump:
        return Activity.SOURCE_DUMP_MANAGED if is_managed else Activity.SOURCE_DUMP_EXTERNAL
    return Activity.SOURCE_PHYSICAL_MANAGED if is_managed else Activity.SOURCE_PHYSICAL_EXTERNAL
