"""Load the latest complete logical dump into a new data directory, and roll forward from the primary's binary logs. No server is read."""

from dbops.engine.methods.base import Method
from dbops.engine.steps.archive import OpenArchive
from dbops.engine.steps.bring_up import Start
from dbops.engine.steps.catch_up import CatchUp
from dbops.engine.steps.clean_up import CleanUp
from dbops.engine.steps.load_dump import LoadDump
from dbops.engine.steps.prelude import Fingerprint
from dbops.engine.steps.repoint import Repoint
from dbops.engine.steps.take_over import TakeOver
from dbops.engine.steps.verify import Verify

METHOD = Method(
    name="dump",
    summary="Load the latest complete dump into a new data directory, and roll forward from the primary.",
    steps=(
        Fingerprint(),
        OpenArchive(),
        TakeOver(),
        LoadDump(),
        Start(),
        CatchUp(),
        Repoint(),
        Verify(),
        CleanUp(),
    ),
    reads_source=False,
)
