"""Take requested readings of top statements."""

from contextlib import closing
from datetime import datetime, timedelta

from django.db.models import Q

from dbops.database import clock
from dbops.drivers.digests import OPERATION, read_digests
from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import to_record
from dbops.engine.load_tests.digest_facts import SourceDigests
from dbops.engine.phrases import phrase
from dbops.lifecycle.readings import end_lost_readings, end_reading, forget_old_readings
from dbops.models import DigestReading
from dbops.worker.connections import open_database
from dbops.worker.readings import ended_on_failure, flavor_of

Statuses = DigestReading.Statuses
#: After these times a reading has no living worker. Celery ends a hanging task within a minute.
READS_AT_MOST, WAITS_AT_MOST = timedelta(seconds=120), timedelta(seconds=120)


def take_reading(reading_id: int) -> bool:
    """Take a queued reading. Return whether it was: a second message does nothing."""
    mine = DigestReading.objects.filter(pk=reading_id, status=Statuses.QUEUED)
    if not mine.update(status=Statuses.RUNNING, claimed_at=clock.now()):
        return False
    row = DigestReading.objects.select_related("instance__cluster", "instance__host").get(pk=reading_id)
    with ended_on_failure(row, _unknown):
        end_reading(row, Statuses.SUCCEEDED, result=to_record(_read(row)))
        forget_old_readings(row)
    return True


def readings_due(now: datetime) -> list[int]:
    """End readings without a living worker, and return those that are due."""
    lost = Q(status=Statuses.RUNNING, claimed_at__lt=now - READS_AT_MOST)
    lost |= Q(status=Statuses.QUEUED, requested_at__lt=now - WAITS_AT_MOST)
    end_lost_readings(DigestReading, lost, _unknown(phrase("its worker was stopped, or none took it up in time")))
    return list(DigestReading.objects.filter(status=Statuses.QUEUED).values_list("pk", flat=True))


def _read(row: DigestReading) -> SourceDigests:
    with closing(open_database(row.instance)) as database:
        return read_digests(database, flavor_of(database), row.schema)


def _unknown(cause: str) -> RemoteFailure:
    return RemoteFailure("digests.unknown", OPERATION, cause=cause)
