"""Let the target's own server clone the source's: MySQL 8.0 and newer, without a backup tool and without a pause."""

from dbops.engine.rebuilds.methods.base import Method
from dbops.engine.rebuilds.steps.copy.clone import Clone, OpenDonor
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.preflight.live_check import PreflightCheck
from dbops.engine.rebuilds.steps.replicate.catch_up import CatchUp
from dbops.engine.rebuilds.steps.replicate.repoint import Repoint
from dbops.engine.rebuilds.steps.start.prepare_and_start import StartServer

METHOD = Method(
    name="clone",
    summary="Let the target's MySQL server clone the running source into a new data directory.",
    steps=(
        PreflightCheck(),
        OpenDonor(),
        SwapDatadir(),
        Clone(),
        StartServer(),
        CatchUp(),
        Repoint(),
        Verify(),
        CleanUp(),
    ),
)
