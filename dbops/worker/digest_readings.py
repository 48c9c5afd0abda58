"""Take requested readings of top statements."""

import logging
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from dbops.database import clock
from dbops.drivers.digests import OPERATION, read_digests
from dbops.engine.errors import DbopsError, RemoteFailure
from dbops.engine.facts.instance import to_record
from dbops.engine.flavors import flavor_for
from dbops.engine.load_tests.digest_facts import SourceDigests
from dbops.engine.phrases import phrase
from dbops.loaders.accounts import secrets_of
from dbops.models import DigestReading
from dbops.models.digest_readings import OVER
from dbops.security.redaction import redact_record
from dbops.worker.connections import open_database

log = logging.getLogger(__name__)

Statuses = DigestReading.Statuses
#: After these times a reading has no living worker. Celery ends a hanging task within a minute.
READS_AT_MOST, WAITS_AT_MOST = timedelta(seconds=120), timedelta(seconds=120)
#: How many are kept of an instance.
KEPT = 20
UNFINISHED = (Statuses.QUEUED, Statuses.RUNNING)


def take_reading(reading_id: int) -> bool:
    """Take a queued reading. Return whether it was: a second message does nothing."""
    mine = DigestReading.objects.filter(pk=reading_id, status=Statuses.QUEUED)
    if not mine.update(status=Statuses.RUNNING, claimed_at=clock.now()):
        return False
    row = DigestReading.objects.select_related("instance__cluster", "instance__host").get(pk=reading_id)
    try:
        _end(row.pk, Statuses.SUCCEEDED, result=to_record(_read(row)))
        _forget_old(row)
    except DbopsError as error:
        secrets = secrets_of(row.instance.cluster)
        _end(row.pk, Statuses.FAILED, error=redact_record(error.as_record(), secrets))
    except BaseException as error:
        _end(
            row.pk,
            Statuses.UNKNOWN,
            error=_unknown(phrase("its worker was ended ({name})", name=type(error).__name__)).as_record(),
        )
        raise
    return True


def readings_due(now: datetime) -> list[int]:
    """End readings without a living worker, and return those that are due."""
    lost = Q(status=Statuses.RUNNING, claimed_at__lt=now - READS_AT_MOST)
    lost |= Q(status=Statuses.QUEUED, requested_at__lt=now - WAITS_AT_MOST)
    for row in DigestReading.objects.filter(lost):
        log.warning("reading %s of top statements was ended: no worker was at it", row.pk)
        _end(
            row.pk,
            Statuses.UNKNOWN,
            error=_unknown(phrase("its worker was stopped, or none took it up in time")).as_record(),
        )
    return list(DigestReading.objects.filter(status=Statuses.QUEUED).values_list("pk", flat=True))


def _read(row: DigestReading) -> SourceDigests:
    with closing(open_database(row.instance)) as database:
        said = database.query("SELECT VERSION() AS version, @@version_comment AS comment")[0]
        return read_digests(database, flavor_for(str(said["version"]), str(said["comment"])), row.schema)


def _end(reading_id: int, status: str, **values: Any) -> None:
    rows = DigestReading.objects.filter(pk=reading_id, status__in=UNFINISHED)
    rows.update(status=status, finished_at=clock.now(), slot=None, **values)


def _forget_old(row: DigestReading) -> None:
    kept = DigestReading.objects.filter(instance=row.instance_id).values_list("pk", flat=True)[:KEPT]
    DigestReading.objects.filter(instance=row.instance_id, pk__lt=min(kept), status__in=OVER).delete()


def _unknown(cause: str) -> RemoteFailure:
    return RemoteFailure("digests.unknown", OPERATION, cause=cause)
