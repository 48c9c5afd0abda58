"""The ``archive`` method: unpack the latest complete physical backup and catch up from the primary."""

from dbops.engine.phrases import phrase
from dbops.engine.planning.checks import (
    archive,
    capacity,
    doublewrite,
    inside,
    kind,
    layout,
    pair,
    source,
    storage,
    target,
    topology,
)
from dbops.engine.planning.method import Method
from dbops.engine.rebuilds.steps.certify.step import Certify
from dbops.engine.rebuilds.steps.copy.archive import Fetch, OpenArchive
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.preflight.live_check import PreflightCheck
from dbops.engine.rebuilds.steps.replicate.catch_up import CatchUp
from dbops.engine.rebuilds.steps.replicate.repoint import Repoint
from dbops.engine.rebuilds.steps.start.prepare_and_start import Prepare, SetOwnership, StartServer
from dbops.engine.schedule.conflicts import BLOCKS, FOR_A_BACKUP, Activity, Conflict, CopySource

METHOD = Method(
    name="archive",
    summary=phrase(
        "Unpack the latest complete physical backup into the data directory, and catch up from the primary."
    ),
    steps=(
        PreflightCheck(),
        OpenArchive(),
        SwapDatadir(),
        Fetch(),
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
        **FOR_A_BACKUP,
        Activity.NO_COPY: Conflict(
            BLOCKS,
            phrase("No complete physical backup exists."),
        ),
    },
    # The source's server is not read, so it is not checked.
    checks=(
        *topology.CHECKS,
        *target.CHECKS,
        *kind.OF_A_BACKUP,
        pair.source_is_another,
        pair.members_of_one_cluster,
        pair.local_logins_work,
        pair.dashboard_has_privileges,
        *archive.CHECKS,
        pair.formats_fit,
        pair.clocks_agree,
        source.nothing_lies_outside,
        *layout.OF_A_BACKUP,
        *storage.CHECKS,
        *inside.CHECKS,
        *doublewrite.CHECKS,
        capacity.target_has_room,
    ),
    reads=CopySource.PHYSICAL_BACKUP,
    short=phrase("from the last physical backup"),
    no_pause=phrase("The method reads a finished backup, not the source's server."),
)
