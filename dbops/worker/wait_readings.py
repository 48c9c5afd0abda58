"""Take requested readings of wait events: one message for the first reading, one for the second. No worker sleeps between them."""

from contextlib import closing
from datetime import datetime, timedelta

from django.db.models import Q

from dbops.database import clock
from dbops.drivers.waits import read_waits
from dbops.engine.capacity.waits import WaitTotals, compare
from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.phrases import phrase
from dbops.lifecycle.readings import end_lost_readings, end_reading, forget_old_readings
from dbops.models import WaitReading
from dbops.worker.connections import open_database
from dbops.worker.readings import ended_on_failure, flavor_of

Statuses = WaitReading.Statuses
#: After these times a reading has no living worker. Celery ends a hanging task within a minute.
READS_AT_MOST, WAITS_AT_MOST = timedelta(seconds=90), timedelta(seconds=120)
#: The longest time between two readings, with some to spare.
LONGEST = timedelta(minutes=5)


def take_reading(reading_id: int) -> bool:
    """Take the reading that is due. Return whether one was: a second message does nothing."""
    now = clock.now()
    mine = WaitReading.objects.filter(pk=reading_id)
    if mine.filter(status=Statuses.QUEUED).update(status=Statuses.FIRST, claimed_at=now):
        _take(reading_id, is_first=True)
        return True
    if mine.filter(_is_due(now), status=Statuses.WAITING).update(status=Statuses.SECOND, claimed_at=now):
        _take(reading_id, is_first=False)
        return True
    return False


def readings_due(now: datetime) -> list[int]:
    """End readings without a living worker, and return those that are due."""
    lost = Q(status__in=(Statuses.FIRST, Statuses.SECOND), claimed_at__lt=now - READS_AT_MOST)
    lost |= Q(status=Statuses.QUEUED, requested_at__lt=now - WAITS_AT_MOST)
    lost |= Q(status=Statuses.WAITING, due_at__lt=now - WAITS_AT_MOST)
    error = _unknown(phrase("its worker was stopped, or none took it up in time"))
    end_lost_readings(WaitReading, lost, error, before={})
    due = Q(status=Statuses.QUEUED) | Q(_is_due(now), status=Statuses.WAITING)
    return list(WaitReading.objects.filter(due).values_list("pk", flat=True))


def _is_due(now: datetime) -> Q:
    """A time far ahead was written before the clock was set back."""
    return Q(due_at__lte=now) | Q(due_at__gt=now + LONGEST)


def _take(reading_id: int, *, is_first: bool) -> None:
    row = WaitReading.objects.select_related("instance__cluster", "instance__host").get(pk=reading_id)
    with ended_on_failure(row, _unknown, before={}):
        found = _read(row)
        if is_first:
            _keep_first(row, found)
        else:
            record = to_record(compare(from_record(WaitTotals, row.before), found))
            end_reading(row, Statuses.SUCCEEDED, result=record, before={})
            forget_old_readings(row)


def _read(row: WaitReading) -> WaitTotals:
    with closing(open_database(row.instance)) as database:
        return read_waits(database, flavor_of(database))


def _keep_first(row: WaitReading, found: WaitTotals) -> None:
    due = clock.now() + timedelta(seconds=row.seconds)
    mine = WaitReading.objects.filter(pk=row.pk, status=Statuses.FIRST)
    mine.update(status=Statuses.WAITING, before=to_record(found), due_at=due)


def _unknown(cause: str) -> RemoteFailure:
    return RemoteFailure("waits.unknown", phrase("Reading wait events"), cause=cause)
