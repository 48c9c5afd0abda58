"""Stream a physical backup from a running source straight into the target's data directory."""

from dbops.engine.rebuilds.methods.base import Method
from dbops.engine.rebuilds.steps.copy.stream import Stream
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.preflight.live_check import OpenAccess, PreflightCheck
from dbops.engine.rebuilds.steps.replicate.catch_up import CatchUp
from dbops.engine.rebuilds.steps.replicate.repoint import Repoint
from dbops.engine.rebuilds.steps.source.pause import Pause, Release
from dbops.engine.rebuilds.steps.start.prepare_and_start import Prepare, SetOwnership, StartServer

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
)
