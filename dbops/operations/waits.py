"""Request a reading of an instance's wait events. A worker takes it; no page opens a connection."""

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.messaging.wakeups import publish_wait_reading
from dbops.models import Instance, WaitReading
from dbops.security.permissions import require_operator

#: How far apart the two readings can be. Shorter ones tell chance.
SECONDS = range(5, 61)


def request_wait_reading(*, actor: User, instance: Instance, seconds: int) -> WaitReading:
    """Request two readings, ``seconds`` apart. Return the row, or that of the reading that already runs.

    Raises:
        Refused: ``access.denied``; not one of ``SECONDS`` (``waits.seconds``).
    """
    operation = phrase("Reading waits of {instance}", instance=instance.name)
    require_operator(actor, operation, instance.cluster_id)
    if seconds not in SECONDS:
        raise Refused("waits.seconds", operation, cause=f"{seconds} s")
    by = actor.get_username()
    try:
        with transaction.atomic():
            row = WaitReading.objects.create(
                instance=instance,
                slot=instance.pk,
                seconds=seconds,
                requested_by=by,
                requested_at=clock.now(),
                status=WaitReading.Statuses.QUEUED,
            )
            append(
                actor=by,
                action="waits.requested",
                subject=instance.name,
                detail={"reading": row.pk, "seconds": seconds},
            )
            publish_wait_reading(row.pk)
    except IntegrityError:
        running = WaitReading.objects.filter(slot=instance.pk).first()
        # None: it has just ended, so its slot is free again
        return running or request_wait_reading(actor=actor, instance=instance, seconds=seconds)
    return row
