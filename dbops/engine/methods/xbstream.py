"""Stream a physical backup from a running source straight into the target's data directory."""

from dbops.engine.methods.base import Method
from dbops.engine.steps.bring_up import Own, Prepare, Start
from dbops.engine.steps.catch_up import CatchUp
from dbops.engine.steps.clean_up import CleanUp
from dbops.engine.steps.pause import Pause, Release
from dbops.engine.steps.prelude import Fingerprint, OpenSource
from dbops.engine.steps.repoint import Repoint
from dbops.engine.steps.stream import Stream
from dbops.engine.steps.take_over import TakeOver
from dbops.engine.steps.verify import Verify

METHOD = Method(
    name="xbstream",
    summary="Stream a physical backup from the source straight into the data directory.",
    steps=(
        Fingerprint(),
        OpenSource(),
        TakeOver(),
        Pause(),
        Stream(),
        Release(),
        Prepare(),
        Own(),
        Start(),
        CatchUp(),
        Repoint(),
        Verify(),
        CleanUp(),
    ),
)
