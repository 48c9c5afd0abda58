"""Put the old data back where a rebuild failed before its copy was verified."""

from dbops.engine.rebuilds.methods.base import Method
from dbops.engine.rebuilds.steps.finish.rollback import (
    FindOldData,
    RemoveCopy,
    ReplicateAsBefore,
    Rollback,
    StartOld,
    outcome,
)

METHOD = Method(
    name="rollback",
    summary="Put the old data of a failed rebuild back and start it.",
    steps=(FindOldData(), Rollback(), StartOld(), ReplicateAsBefore(), RemoveCopy()),
    outcome=outcome,
    reads_source=False,
)
