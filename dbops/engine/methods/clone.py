"""Let the target's own server clone the source's: MySQL 8.0 and newer, without a backup tool and without a pause."""

from dbops.engine.methods.base import Method
from dbops.engine.steps.bring_up import Start
from dbops.engine.steps.catch_up import CatchUp
from dbops.engine.steps.clean_up import CleanUp
from dbops.engine.steps.cloning import Clone, OpenDonor
from dbops.engine.steps.prelude import Fingerprint
from dbops.engine.steps.repoint import Repoint
from dbops.engine.steps.take_over import TakeOver
from dbops.engine.steps.verify import Verify

METHOD = Method(
    name="clone",
    summary="Let the target's MySQL server clone the running source into a new data directory.",
    steps=(
        Fingerprint(),
        OpenDonor(),
        TakeOver(),
        Clone(),
        Start(),
        CatchUp(),
        Repoint(),
        Verify(),
        CleanUp(),
    ),
)
