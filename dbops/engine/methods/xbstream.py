"""Stream a physical backup from a running source straight into the target's data directory."""

from dbops.engine.planning.checks import OF_A_SERVER
from dbops.engine.planning.method import Method
from dbops.engine.rebuilds.steps.copy.stream import Stream
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.preflight.live_check import OpenAccess, PreflightCheck
from dbops.engine.rebuilds.steps.replicate.catch_up import CatchUp
from dbops.engine.rebuilds.steps.replicate.repoint import Repoint
from dbops.engine.rebuilds.steps.source.pause import Pause, Release
from dbops.engine.rebuilds.steps.start.prepare_and_start import Prepare, SetOwnership, StartServer
from dbops.engine.schedule.conflicts import FOR_A_SERVER, WAITS, Activity, Conflict

METHOD = Method(
    name="xbstream",
    summary="Stream a physical backup from the source straight into the data directory.",
    steps=(
        PreflightCheck(),
        OpenAccess(),
        SwapDatadir(),
        Pause(),
        Stream(),
        Release(),
        Prepare(),
        SetOwnership(),
        StartServer(),
        CatchUp(),
        Repoint(),
        Verify(),
        CleanUp(),
    ),
    conflicts={
        **FOR_A_SERVER,
        Activity.SOURCE_DUMP_MANAGED: Conflict(
            WAITS,
            "Both read every page of the source: each slows the other, and a slower stream is overtaken by the redo log. "
            "Both hold the instance.",
        ),
        Activity.SOURCE_DUMP_EXTERNAL: Conflict(
            WAITS,
            "Both read every page of the source: each slows the other, and a slower stream is overtaken by the redo log. "
            "Where the copy ends with FLUSH TABLES WITH READ LOCK, that waits for the dump's running SELECT and holds up "
            "replication; a dump with --dump-slave starts the source's replication again while we have it paused.",
        ),
        Activity.SOURCE_PHYSICAL_MANAGED: Conflict(
            WAITS,
            "One server makes one physical backup at a time: MariaDB lets one session into BACKUP STAGE and the second "
            "one waits or fails; with xtrabackup both read every page and follow the redo log twice.",
        ),
        Activity.SOURCE_PHYSICAL_EXTERNAL: Conflict(
            WAITS,
            "One server makes one physical backup at a time: MariaDB lets one session into BACKUP STAGE and the second "
            "one waits or fails, which may be the backup of tonight; with xtrabackup both follow the redo log, and "
            "--safe-slave-backup starts the source's replication again while we have it paused.",
        ),
        Activity.SOURCE_READ: Conflict(
            WAITS,
            "One job at a time on each source: it is read at full speed, and its replication may be paused for the other one.",
        ),
    },
    checks=OF_A_SERVER,
    short="by the stream",
    streams=True,
    can_share_read=True,
)
