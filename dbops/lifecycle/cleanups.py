"""Clean up after ended rebuilds as soon as their hosts answer."""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from dbops.audit.log import SYSTEM, append
from dbops.database import clock
from dbops.database.errors import locked
from dbops.engine.phrases import phrase
from dbops.engine.states import FINAL, Level, Status, StepState
from dbops.lifecycle.backup_runs import run_again
from dbops.lifecycle.events import announce_later, log_event
from dbops.lifecycle.rebuild_driver import RebuildUpdate, audit_commands, write_update
from dbops.lifecycle.shared_reads import pass_on_source
from dbops.models import Hold, Rebuild
from dbops.models.phrases import with_phrases

#: Seconds between two attempts: half a minute in the first hour after the end, then ten minutes.
SOON_SECONDS, LATER_SECONDS, HOUR_SECONDS = 30, 600, 3600


def force_fail(rebuild: Rebuild, by: str) -> bool:
    """Mark a ``lost`` rebuild as failed without contacting its hosts. Return whether it was lost.

    A running driver loses its lease. The sweep ends processes on the hosts once they answer.
    """
    now = clock.now()
    outcome = phrase(
        "Marked as failed by {by} while a host was unreachable. The state of {target} is unknown. "
        "When the hosts respond, dbops stops what still runs there and updates this outcome.",
        by=by,
        target=rebuild.target.name,
    )
    with transaction.atomic():
        moved = (
            locked(Rebuild, rebuild.pk)
            .filter(status=Status.LOST)
            .update(
                status=Status.FAILED,
                pending_status=Status.FAILED,
                finished_at=now,
                target_slot=None,
                lease_owner="",
                lease_until=None,
                next_tick_at=None,
                sweep_due_at=now,
                revision=F("revision") + 1,
                **with_phrases(outcome=outcome),
            )
        )
        if moved:
            pass_on_source(rebuild)
            Hold.objects.filter(rebuild=rebuild).delete()
            rebuild.steps.filter(state=StepState.RUNNING).update(state=StepState.FAILED, finished_at=now)
            rebuild.steps.filter(state=StepState.PENDING).update(state=StepState.SKIPPED)
            log_event(rebuild, outcome, level=Level.ERROR)
            detail = {"rebuild": rebuild.pk, "outcome": outcome}
            run_again(rebuild)
            append(actor=SYSTEM, action="rebuild.failed", subject=rebuild.target.name, detail=detail)
    if moved:
        announce_later(rebuild.pk)
    return bool(moved)


def sweeps_due(now: datetime) -> list[int]:
    """Return the ids of ended rebuilds with something left to clean up."""
    return list(Rebuild.objects.filter(status__in=FINAL, sweep_due_at__lte=now).values_list("pk", flat=True))


def claim_sweep(rebuild_id: int) -> Rebuild | None:
    """Claim a sweep by moving its next attempt; ``None`` if another process claimed it or nothing is due.

    A rebuild that holds one of the two instances comes first: its work must not be disturbed.
    """
    now = clock.now()
    rebuild = (
        Rebuild.objects.select_related("target__host", "target__cluster", "source__host")
        .filter(pk=rebuild_id, status__in=FINAL, sweep_due_at__lte=now)
        .first()
    )
    if rebuild is None or Hold.objects.filter(instance__in=(rebuild.target_id, rebuild.source_id)).exists():
        return None
    ended = rebuild.finished_at or now
    wait = SOON_SECONDS if (now - ended).total_seconds() < HOUR_SECONDS else LATER_SECONDS
    mine = Rebuild.objects.filter(pk=rebuild.pk, sweep_due_at=rebuild.sweep_due_at)
    return rebuild if mine.update(sweep_due_at=now + timedelta(seconds=wait)) else None


def write_sweep(rebuild: Rebuild, update: RebuildUpdate) -> None:
    """Write the events and commands of a sweep."""
    with transaction.atomic():
        Rebuild.objects.filter(pk=rebuild.pk).update(revision=F("revision") + 1)
        audit_commands(rebuild, write_update(rebuild, update))
    announce_later(rebuild.pk)


def end_sweep(rebuild: Rebuild, checkpoint: dict[str, Any], outcome: str) -> None:
    """Store the result of a sweep. ``outcome`` replaces the rebuild's when all is done; empty: the sweep is repeated."""
    changes: dict[str, Any] = {"checkpoint": checkpoint, "revision": F("revision") + 1}
    if outcome:
        changes |= {"sweep_due_at": None, **with_phrases(outcome=outcome)}
    with transaction.atomic():
        Rebuild.objects.filter(pk=rebuild.pk, status__in=FINAL).update(**changes)
        if outcome:
            log_event(rebuild, phrase("Cleaned up after the end. {outcome}", outcome=outcome))
            append(
                actor=SYSTEM,
                action="rebuild.cleaned_up",
                subject=rebuild.target.name,
                detail={"rebuild": rebuild.pk, "outcome": outcome},
            )
    announce_later(rebuild.pk)
