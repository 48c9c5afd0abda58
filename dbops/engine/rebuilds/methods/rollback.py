"""Put the old data back where a rebuild failed before its copy was verified."""

from dbops.engine.rebuilds.methods.base import Method
from dbops.engine.rebuilds.steps.finish.rollback import (
    LookBack,
    PutBack,
    RemoveCopy,
    ReplicateAsBefore,
    StartOld,
    outcome,
)

METHOD = Method(
    name="put-back",
    summary="Put the old data of a failed rebuild back and start it.",
    steps=(LookBack(), PutBack(), StartOld(), ReplicateAsBefore(), RemoveCopy()),
    outcome=outcome,
    reads_source=False,
)
