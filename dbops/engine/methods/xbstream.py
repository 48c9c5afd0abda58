"""Stream a physical backup from a running source straight into the target's data directory."""

from dbops.engine.methods.base import Method
from dbops.engine.steps.bring_up import Own, Prepare, Start
from dbops.engine.steps.clean_up import CleanUp
from dbops.engine.steps.copy import Stream, TakeOver
from dbops.engine.steps.prelude import Fingerprint, OpenSource
from dbops.engine.steps.replicate import CatchUp, Repoint, Verify
from dbops.engine.steps.source import Pause, Release

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
