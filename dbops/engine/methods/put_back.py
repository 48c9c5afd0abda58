"""Put the old data back where a rebuild failed before its copy was verified."""

from dbops.engine.methods.base import Method
from dbops.engine.steps.put_back import LookBack, PutBack, RemoveCopy, ReplicateAsBefore, StartOld, outcome

METHOD = Method(
    name="put-back",
    summary="Put the old data of a failed rebuild back and start it.",
    steps=(LookBack(), PutBack(), StartOld(), ReplicateAsBefore(), RemoveCopy()),
    outcome=outcome,
    reads_source=False,
)
