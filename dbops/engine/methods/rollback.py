"""The rollback follow-up: put the old data back if the copy was not verified."""

from dbops.engine.methods import xbstream
from dbops.engine.phrases import phrase
from dbops.engine.planning.method import Method
from dbops.engine.rebuilds.follow_ups import ROLLBACK
from dbops.engine.rebuilds.steps.finish.rollback import (
    FindOldData,
    RemoveCopy,
    ReplicateAsBefore,
    Rollback,
    StartOld,
    outcome,
)
from dbops.engine.schedule.conflicts import CopySource

METHOD = Method(
    name=ROLLBACK,
    noun=phrase("rollback"),
    summary=phrase("Put the old data of a failed rebuild back and start it."),
    steps=(FindOldData(), Rollback(), StartOld(), ReplicateAsBefore(), RemoveCopy()),
    outcome=outcome,
    conflicts=xbstream.METHOD.conflicts,
    reads=CopySource.NOTHING,
    checks=(),
    is_follow_up=True,
)
