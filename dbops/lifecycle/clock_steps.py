"""What happens when dbops's clock is set: the audit log has it, and nothing waits for a time that comes a second time."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F

from dbops.audit.log import SYSTEM, append
from dbops.engine.facts.age import TOLERANCE_SECONDS
from dbops.models import (
    AuditSink,
    BackupRun,
    ClockStep,
    InstanceState,
    InventorySource,
    LoadTest,
    ProcessHeartbeat,
    Rebuild,
    RestoreTest,
    RowComparison,
)

#: The clock can have shown times as much later than its last look by a process that reported.
UNSEEN = timedelta(seconds=60)
LEASED = (Rebuild, BackupRun, RestoreTest, LoadTest, RowComparison)


def note_step(before: datetime, at: datetime) -> None:
    """Record that the clock was set, and bring times of the future back, in one transaction.

    Args:
        before: the time that the clock would have shown, as far as the caller knows.
        at: the time that it shows.
    """
    with transaction.atomic():
        ClockStep.objects.create(before=before, at=at)
        bring_back(at)
        seconds = round((at - before).total_seconds())
        append(actor=SYSTEM, action="clock.stepped", subject="dbops", detail={"seconds": seconds})


def bring_back(now: datetime) -> None:
    """Make due what a time of the future keeps from being done.

    A lease keeps its whole length from now: its driver can be alive, and extends it. A dead driver's ends.
    """
    ProcessHeartbeat.objects.filter(at__gt=now).update(at=now)
    InstanceState.objects.filter(probe_due_at__gt=now).update(probe_due_at=now)
    longest = now + timedelta(seconds=settings.LEASE_SECONDS)
    for model in LEASED:
        model._default_manager.filter(lease_until__gt=longest).update(lease_until=longest)
        model._default_manager.filter(next_tick_at__gt=now).update(next_tick_at=now)
        model._default_manager.filter(unreachable_since__gt=now).update(unreachable_since=now)
    AuditSink.objects.filter(lease_until__gt=longest).update(lease_until=longest)
    AuditSink.objects.filter(next_try_at__gt=now).update(next_try_at=now)
    InventorySource.objects.filter(next_read_at__gt=now).update(next_read_at=now)
    Rebuild.objects.filter(sweep_due_at__gt=now).update(sweep_due_at=now)


def step_with_facts_left(now: datetime) -> ClockStep | None:
    """Return the last step back while an instance has facts of the future: they were read before it. One query, or two."""
    step = last_step_back(now)
    ahead = now + timedelta(seconds=TOLERANCE_SECONDS)
    return step if step and InstanceState.objects.filter(observed_at__gt=ahead).exists() else None


def last_step_back(now: datetime) -> ClockStep | None:
    """Return the last step back whose time was not reached again, or a moment ago."""
    return ClockStep.objects.filter(before__gt=now - UNSEEN, at__lt=F("before")).order_by("-pk").first()
