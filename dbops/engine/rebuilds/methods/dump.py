"""Load the latest complete logical dump into a new data directory, and roll forward from the primary's binary logs. No server is read."""

from dbops.engine.rebuilds.methods.base import Method
from dbops.engine.rebuilds.steps.copy.archive import OpenArchive
from dbops.engine.rebuilds.steps.copy.dump import LoadDump
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.preflight.live_check import PreflightCheck
from dbops.engine.rebuilds.steps.replicate.catch_up import CatchUp
from dbops.engine.rebuilds.steps.replicate.repoint import Repoint
from dbops.engine.rebuilds.steps.start.prepare_and_start import StartServer

METHOD = Method(
    name="dump",
    summary="Load the latest complete dump into a new data directory, and roll forward from the primary.",
    steps=(
        PreflightCheck(),
        OpenArchive(),
        SwapDatadir(),
        LoadDump(),
        StartServer(),
        CatchUp(),
        Repoint(),
        Verify(),
        CleanUp(),
    ),
    reads_source=False,
)
