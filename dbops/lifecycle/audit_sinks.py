"""Leases of audit sinks, and how far each receiver has the log."""

from datetime import datetime, timedelta
from uuid import uuid4

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from dbops.audit.log import SYSTEM, append
from dbops.database import clock
from dbops.engine.audit.sinks import FIRST_WAIT, LONGEST_WAIT
from dbops.engine.errors import DbopsError
from dbops.engine.network.retries import wait_after
from dbops.models import AuditHead, AuditSink

#: Longer than a delivery, with time to find the receiver's address.
LEASE = timedelta(seconds=60)


def due(now: datetime) -> QuerySet[AuditSink]:
    """Return the sinks that lack entries, have no living worker and need not wait after a failure."""
    lacks = Exists(AuditHead.objects.filter(sequence__gt=OuterRef("sent_sequence")))
    return AuditSink.objects.filter(lacks, _is_free(now), next_try_at__lte=now)


def claim(sink_id: int) -> AuditSink | None:
    """Lease a due sink; ``None`` if it is not due, or another worker has it."""
    now, owner = clock.now(), uuid4().hex
    until = now + LEASE
    mine = AuditSink.objects.filter(_is_free(now), pk=sink_id, next_try_at__lte=now)
    return _mine(sink_id, owner) if mine.update(lease_owner=owner, lease_until=until) else None


def mark_sent(sink: AuditSink, last: int) -> bool:
    """Move the cursor to ``last`` and keep the lease. Return whether this worker still has it."""
    now = clock.now()
    return _write(
        sink,
        sent_sequence=last,
        sent_at=now,
        failures=0,
        error={},
        failed_at=None,
        lease_until=now + LEASE,
    )


def mark_failed(sink: AuditSink, error: DbopsError) -> None:
    """Record a failed delivery, and when to retry. A test that was requested during the delivery is not delayed."""
    now, failures = clock.now(), sink.failures + 1
    changed = {"failures": failures, "error": error.as_record(), "failed_at": now}
    retry = now + timedelta(seconds=wait_after(failures, first=FIRST_WAIT, longest=LONGEST_WAIT))
    mine = AuditSink.objects.filter(pk=sink.pk, lease_owner=sink.lease_owner)
    if not mine.filter(next_try_at=sink.next_try_at).update(**changed, next_try_at=retry):
        mine.update(**changed)


def skip(sink: AuditSink, first: int, last: int) -> bool:
    """Count entries that are no longer in the log as dropped, and name them in it. Return whether this worker has the lease."""
    with transaction.atomic():
        if not _write(sink, sent_sequence=last, dropped=F("dropped") + last - first + 1):
            return False
        detail = {"first": first, "last": last, "entries": last - first + 1}
        append(actor=SYSTEM, action="audit.sink_dropped", subject=sink.name, outcome="missed", detail=detail)
    return True


def release(sink: AuditSink) -> None:
    """Give the lease back."""
    AuditSink.objects.filter(pk=sink.pk, lease_owner=sink.lease_owner).update(lease_owner="", lease_until=None)


def _is_free(now: datetime) -> Q:
    return Q(lease_until=None) | Q(lease_until__lt=now)


def _mine(sink_id: int, owner: str) -> AuditSink | None:
    return AuditSink.objects.filter(pk=sink_id, lease_owner=owner).first()


def _write(sink: AuditSink, **values: object) -> bool:
    changed = AuditSink.objects.filter(pk=sink.pk, lease_owner=sink.lease_owner).update(**values)
    if changed:
        sink.refresh_from_db(fields=["sent_sequence", "failures"])
    return bool(changed)
