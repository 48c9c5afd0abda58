"""Unpack the latest complete physical backup, and roll forward from the primary's binary logs. No server is read."""

from dbops.engine.rebuilds.methods.base import Method
from dbops.engine.rebuilds.steps.copy.archive import Fetch, OpenArchive
from dbops.engine.rebuilds.steps.copy.swap_datadir import TakeOver
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.preflight.live_check import Fingerprint
from dbops.engine.rebuilds.steps.replicate.catch_up import CatchUp
from dbops.engine.rebuilds.steps.replicate.repoint import Repoint
from dbops.engine.rebuilds.steps.start.prepare_and_start import Own, Prepare, Start

METHOD = Method(
    name="archive",
    summary="Unpack the latest complete physical backup into the data directory, and roll forward from the primary.",
    steps=(
        Fingerprint(),
        OpenArchive(),
        TakeOver(),
        Fetch(),
        Prepare(),
        Own(),
        Start(),
        CatchUp(),
        Repoint(),
        Verify(),
        CleanUp(),
    ),
    reads_source=False,
)
