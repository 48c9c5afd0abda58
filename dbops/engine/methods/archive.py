"""Unpack the latest complete physical backup, and roll forward from the primary's binary logs. No server is read."""

from dbops.engine.methods.base import Method
from dbops.engine.steps.archive import Fetch, OpenArchive
from dbops.engine.steps.bring_up import Own, Prepare, Start
from dbops.engine.steps.catch_up import CatchUp
from dbops.engine.steps.clean_up import CleanUp
from dbops.engine.steps.prelude import Fingerprint
from dbops.engine.steps.repoint import Repoint
from dbops.engine.steps.take_over import TakeOver
from dbops.engine.steps.verify import Verify

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
