"""The ``dump`` method: load the latest complete dump into a new data directory and catch up from the primary."""

from dbops.engine.phrases import phrase
from dbops.engine.planning.checks import (
    archive,
    capacity,
    doublewrite,
    inside,
    kind,
    layout,
    pair,
    storage,
    target,
    topology,
)
from dbops.engine.planning.method import Method
from dbops.engine.rebuilds.steps.certify.step import Certify
from dbops.engine.rebuilds.steps.copy.archive import OpenArchive
from dbops.engine.rebuilds.steps.copy.dump import LoadDump
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.preflight.live_check import PreflightCheck
from dbops.engine.rebuilds.steps.replicate.catch_up import CatchUp
from dbops.engine.rebuilds.steps.replicate.repoint import Repoint
from dbops.engine.rebuilds.steps.start.prepare_and_start import StartServer
from dbops.engine.schedule.conflicts import BLOCKS, FOR_A_BACKUP, RUNS_ALONGSIDE, WAITS, Activity, Conflict, CopySource

METHOD = Method(
    name="dump",
    summary=phrase("Load the latest complete dump into a new data directory, and catch up from the primary."),
    steps=(
        PreflightCheck(),
        OpenArchive(),
        SwapDatadir(),
        LoadDump(),
        StartServer(),
        CatchUp(),
        Repoint(),
        Certify(),
        Verify(),
        CleanUp(),
    ),
    conflicts={
        **FOR_A_BACKUP,
        Activity.SOURCE_DUMP_MANAGED: Conflict(
            RUNS_ALONGSIDE,
            phrase(
                "A managed dump replaces the previous one only when it is complete. The rebuild reads the previous "
                "one from the same disk."
            ),
        ),
        Activity.SOURCE_DUMP_EXTERNAL: Conflict(
            WAITS,
            phrase(
                "An external dump may overwrite the last complete one while it runs. A complete dump exists only "
                "after its end."
            ),
        ),
        Activity.NO_COPY: Conflict(
            BLOCKS,
            phrase("No complete dump exists."),
        ),
    },
    # A dump is SQL: formats of the data directory do not matter.
    checks=(
        *topology.CHECKS,
        *target.CHECKS,
        *kind.OF_A_DUMP,
        pair.source_is_another,
        pair.members_of_one_cluster,
        pair.local_logins_work,
        pair.dashboard_has_privileges,
        *archive.OF_A_DUMP,
        *layout.OF_A_DUMP,
        *storage.OF_A_DUMP,
        *inside.OF_A_DUMP,
        *doublewrite.CHECKS,
        pair.clocks_agree,
        capacity.target_has_room,
    ),
    reads=CopySource.DUMP,
    short=phrase("from the last dump"),
    no_pause=phrase("The method reads a finished dump, not the source's server."),
)
