"""Request a reading of an instance's wait events. A worker takes it; no page opens a connection."""

from django.contrib.auth.models import User

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.engine.states import Role
from dbops.lifecycle.readings import queue_reading
from dbops.messaging.wakeups import publish_wait_reading
from dbops.models import Instance, WaitReading
from dbops.security.permissions import require_operator

#: How far apart the two readings can be. Shorter ones tell chance.
SECONDS = range(5, 61)


def request_wait_reading(*, actor: User, instance: Instance, seconds: int) -> WaitReading:
    """Request two readings, ``seconds`` apart. Return the row, or that of the reading that already runs.

    Raises:
        Refused: ``access.denied``; the instance is a TiDB node (``flavor.tidb``); not one of ``SECONDS`` (``waits.seconds``).
    """
    operation = phrase("Reading waits of {instance}", instance=instance.name)
    require_operator(actor, operation, instance.cluster_id)
    if instance.role == Role.TIDB:
        cause = phrase("a TiDB node does not count waits as MySQL and MariaDB do")
        raise Refused.unchanged(
            "flavor.tidb", operation, cause, next_step=phrase("See its waits in the TiDB Dashboard.")
        )
    if seconds not in SECONDS:
        raise Refused("waits.seconds", operation, cause=f"{seconds} s")
    row = WaitReading(instance=instance, seconds=seconds, requested_by=actor.get_username())
    return queue_reading(row, action="waits.requested", detail={"seconds": seconds}, wake=publish_wait_reading)
