"""Readings of an instance that people request: one of a kind at a time, and each ends once."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import IntegrityError, transaction
from django.db.models import Q

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import RemoteFailure
from dbops.models.readings import OVER, UNKNOWN, RequestedReading

log = logging.getLogger(__name__)

#: How many are kept of an instance.
KEPT = 20
Reading = TypeVar("Reading", bound=RequestedReading)


def queue_reading(row: Reading, *, action: str, detail: dict[str, Any], wake: Callable[[int], None]) -> Reading:
    """Queue a reading, with its audit entry. Return it, or the one that already runs on its instance.

    Args:
        detail: of the audit entry, besides the reading's number.
        wake: wakes a worker after the current transaction commits.
    """
    row.slot, row.requested_at, row.status = row.instance_id, clock.now(), "queued"
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            subject = row.instance.name
            append(actor=row.requested_by, action=action, subject=subject, detail={"reading": row.pk, **detail})
            wake(row.pk)
    except IntegrityError:
        running = type(row)._default_manager.filter(slot=row.slot).first()
        # None: it has just ended, so its slot is free again
        return running or queue_reading(row, action=action, detail=detail, wake=wake)
    return row


def end_reading(row: RequestedReading, status: str, **values: Any) -> None:
    """End a reading that is not over, and free its slot."""
    mine = type(row)._default_manager.filter(pk=row.pk).exclude(status__in=OVER)
    mine.update(status=status, finished_at=clock.now(), slot=None, **values)


def end_lost_readings(kind: type[RequestedReading], lost: Q, error: RemoteFailure, **values: Any) -> None:
    """End the readings that no living worker is at."""
    for row in kind._default_manager.filter(lost).select_related("instance"):
        log.warning("reading %s was ended: %s, no worker was at it", row.pk, row)
        end_reading(row, UNKNOWN, error=error.as_record(), **values)


def forget_old_readings(row: RequestedReading) -> None:
    """Remove an instance's readings before its ``KEPT`` newest ones."""
    mine = type(row)._default_manager.filter(instance=row.instance_id)
    mine.filter(pk__lt=min(mine.values_list("pk", flat=True)[:KEPT]), status__in=OVER).delete()
