"""Unpack the latest complete physical backup, and roll forward from the primary's binary logs. No server is read."""

from dbops.engine.rebuilds.methods.base import Method
from dbops.engine.rebuilds.steps.copy.archive import Fetch, OpenArchive
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.preflight.live_check import PreflightCheck
from dbops.engine.rebuilds.steps.replicate.catch_up import CatchUp
from dbops.engine.rebuilds.steps.replicate.repoint import Repoint
from dbops.engine.rebuilds.steps.start.prepare_and_start import Prepare, SetOwnership, StartServer

METHOD = Method(
    name="archive",
    summary="Unpack the latest complete physical backup into the data directory, and roll forward from the primary.",
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
        Verify(),
        CleanUp(),
    ),
    reads_source=False,
)
