"""The ``xbstream`` method: stream a physical backup from the running source into the target's data directory."""

from dbops.engine.phrases import phrase
from dbops.engine.planning.checks import OF_A_SERVER
from dbops.engine.planning.method import Method
from dbops.engine.rebuilds.steps.certify.step import Certify
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
    summary=phrase("Stream a physical backup from the source directly into the data directory."),
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
        Certify(),
        Verify(),
        CleanUp(),
    ),
    conflicts={
        **FOR_A_SERVER,
        Activity.SOURCE_DUMP_MANAGED: Conflict(
            WAITS,
            phrase(
                "Both read every page of the source. They slow each other down, and the redo log may overtake a slow "
                "stream. Both hold the instance."
            ),
        ),
        Activity.SOURCE_DUMP_EXTERNAL: Conflict(
            WAITS,
            phrase(
                "Both read every page of the source. They slow each other down, and the redo log may overtake a slow "
                "stream. FLUSH TABLES WITH READ LOCK at the end of the copy waits for the dump's SELECT and delays "
                "replication. A dump with --dump-slave restarts the replication that dbops paused."
            ),
        ),
        Activity.SOURCE_PHYSICAL_MANAGED: Conflict(
            WAITS,
            phrase(
                "A server makes one physical backup at a time. MariaDB allows one session in BACKUP STAGE; the "
                "second one waits or fails. With xtrabackup both read every page and the redo log."
            ),
        ),
        Activity.SOURCE_PHYSICAL_EXTERNAL: Conflict(
            WAITS,
            phrase(
                "A server makes one physical backup at a time. MariaDB allows one session in BACKUP STAGE; the "
                "second one, which may be the external backup, waits or fails. With xtrabackup both read the redo "
                "log, and --safe-slave-backup restarts the replication that dbops paused."
            ),
        ),
        Activity.SOURCE_READ: Conflict(
            WAITS,
            phrase("One job at a time reads a source: at full speed, and perhaps with its replication paused."),
        ),
    },
    checks=OF_A_SERVER,
    short=phrase("by the stream"),
    streams=True,
    can_share_read=True,
)
