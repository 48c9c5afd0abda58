"""Write the progress and end of a rebuild: one driver at a time has the lease, and every write checks it."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from django.db import transaction
from django.db.models import F

from dbops.audit.log import SYSTEM, append
from dbops.database import clock
from dbops.engine.audit.chain import moment
from dbops.engine.errors import Bug
from dbops.engine.phrases import Phrase, phrase
from dbops.engine.states import STEP_FINAL, Level, Status, StepState, may_move
from dbops.lifecycle import leases, row_comparisons
from dbops.lifecycle.backup_runs import run_again
from dbops.lifecycle.events import announce_later, log_event
from dbops.lifecycle.leases import NO_LEASE, Lease, LeaseLost, audit_move, extend, mine
from dbops.lifecycle.shared_reads import pass_on_source
from dbops.models import ExecutedCommand, Hold, InstanceState, Rebuild, RebuildEvent, RebuildStep
from dbops.models.phrases import with_phrases

#: Last line of a rebuild's history, by status.
LEVELS = {Status.SUCCEEDED: Level.INFO, Status.CANCELLED: Level.WARNING}

RebuildLease: TypeAlias = Lease[Rebuild]


@dataclass(slots=True)
class RebuildUpdate:
    """News of a driver: collected for a second, then written in one transaction with the heartbeat."""

    events: list[RebuildEvent] = field(default_factory=list)
    started_commands: dict[str, ExecutedCommand] = field(default_factory=dict)
    finished_commands: dict[str, tuple[int | None, str, datetime]] = field(default_factory=dict)
    progress: tuple[str, dict[str, Any]] | None = None

    def __bool__(self) -> bool:
        return bool(self.events or self.started_commands or self.finished_commands or self.progress)


def due(now: datetime) -> list[int]:
    """Return the ids of rebuilds with due work and without a living driver."""
    return leases.due(Rebuild, now)


def take_lease(rebuild_id: int) -> RebuildLease | None:
    """Become the driver of a rebuild; ``None`` if it has a living driver or no due work."""
    return leases.take(Rebuild, rebuild_id, "target__host", "target__cluster", "source__host", "requested_by")


def heartbeat(lease: RebuildLease, update: RebuildUpdate, checkpoint: dict[str, Any] | None) -> bool:
    """Write the update, check the lease and extend it. Return whether a cancellation is requested.

    ``checkpoint`` is ``None`` if unchanged.

    Raises:
        LeaseLost: the lease is no longer ours; ``update`` was not written.
    """
    with transaction.atomic():
        changes: dict[str, Any] = {"revision": F("revision") + 1} if update else {}
        if checkpoint is not None:
            changes["checkpoint"] = checkpoint
        if not extend(lease, **changes):
            raise LeaseLost
        ended = write_update(lease.rebuild, update)
        cancel = Rebuild.objects.filter(pk=lease.rebuild.pk, cancel_requested_at__isnull=False).exists()
        audit_commands(lease.rebuild, ended)
    if update:
        announce_later(lease.rebuild.pk)
    return cancel


def write_update(rebuild: Rebuild, update: RebuildUpdate) -> list[str]:
    """Write events, commands and progress, within the caller's transaction. Return the keys of the commands that ended.

    The caller ends its transaction with ``audit_commands`` of these.
    """
    RebuildEvent.objects.bulk_create(update.events)
    ExecutedCommand.objects.bulk_create(update.started_commands.values(), ignore_conflicts=True)
    ended = [
        key
        for key, (exit_status, output, at) in update.finished_commands.items()
        if ExecutedCommand.objects.filter(rebuild=rebuild, key=key, finished_at=None).update(
            exit_status=exit_status, output=output, finished_at=at
        )
    ]
    if update.progress:
        name, known = update.progress
        RebuildStep.objects.filter(rebuild=rebuild, name=name).update(progress=known)
    return ended


def audit_commands(rebuild: Rebuild, keys: Collection[str]) -> None:
    """Write an audit entry for each command that has just ended, as the last write of the transaction.

    Polls are not commands, and each command has one entry, at its end: some dozens for each rebuild.
    """
    for command in ExecutedCommand.objects.filter(rebuild=rebuild, key__in=keys) if keys else ():
        append(
            actor=SYSTEM,
            action="command.ended",
            subject=command.place,
            instance=rebuild.target.name,
            cluster=rebuild.target.cluster.name,
            outcome="unknown" if command.exit_status is None else "failed" if command.exit_status else "",
            detail={
                "rebuild": rebuild.pk,
                "step": command.step,
                "command": command.text,
                "exit_status": command.exit_status,
                "started_at": moment(command.started_at),
                "finished_at": moment(command.finished_at) if command.finished_at else "",
            },
        )


def begin_step(lease: RebuildLease, name: str) -> None:
    """Mark a step as running; a second call (after re-attaching) keeps the first time. Raises ``LeaseLost``."""
    with transaction.atomic():
        if not mine(lease).update(revision=F("revision") + 1):
            raise LeaseLost
        lease.rebuild.steps.filter(name=name, state=StepState.PENDING).update(
            state=StepState.RUNNING, started_at=clock.now()
        )
    announce_later(lease.rebuild.pk)


def check_lease(lease: RebuildLease) -> None:
    """Check that the lease is still ours. Raises ``LeaseLost``."""
    if not mine(lease).exists():
        raise LeaseLost


def end_step(
    lease: RebuildLease,
    name: str,
    state: StepState,
    result: dict[str, Any],
    update: RebuildUpdate,
    checkpoint: dict[str, Any],
) -> None:
    """End a step with its result and its last update. Raises ``LeaseLost``."""
    with transaction.atomic():
        ended = _end_step(lease, name, state, result, update, checkpoint)
        audit_commands(lease.rebuild, ended)
    announce_later(lease.rebuild.pk)


def _end_step(
    lease: RebuildLease,
    name: str,
    state: StepState,
    result: dict[str, Any],
    update: RebuildUpdate,
    checkpoint: dict[str, Any],
) -> list[str]:
    if not mine(lease).update(checkpoint=checkpoint, revision=F("revision") + 1):
        raise LeaseLost
    ended = write_update(lease.rebuild, update)
    lease.rebuild.steps.filter(name=name).exclude(state__in=STEP_FINAL).update(
        state=state, finished_at=clock.now(), result=result
    )
    return ended


def end_badly(
    lease: RebuildLease,
    name: str,
    status: Status,
    result: dict[str, Any],
    update: RebuildUpdate,
    checkpoint: dict[str, Any],
    *,
    last_step: str,
    error: dict[str, str],
    text: str,
) -> None:
    """End a failed or cancelled step, and skip all remaining steps except the clean-up, in one transaction.

    Raises:
        LeaseLost: the lease is no longer ours, or the ending has begun already; nothing was written.
    """
    state = StepState.CANCELLED if status is Status.CANCELLED else StepState.FAILED
    with transaction.atomic():
        ended = _end_step(lease, name, state, result, update, checkpoint)
        changes = {"pending_status": status, "error": error}
        if not mine(lease).filter(pending_status="").update(revision=F("revision") + 1, **changes):
            raise LeaseLost
        pending = lease.rebuild.steps.filter(state=StepState.PENDING).exclude(name=last_step)
        pending.update(state=StepState.SKIPPED)
        if text:
            log_event(lease.rebuild, text, level=Level.ERROR)
        audit_commands(lease.rebuild, ended)
    lease.rebuild.pending_status, lease.rebuild.error = status, error
    announce_later(lease.rebuild.pk)


def finish(lease: RebuildLease, status: Status, outcome: str, *, needs_sweep: bool = False) -> None:
    """Set the final status of a rebuild, free its holds and its target, and record it in the audit log.

    ``needs_sweep``: something is left on a host that did not answer.

    Raises:
        LeaseLost: another driver ended or owns the rebuild.
        Bug: the status cannot change like this.
    """
    found = mine(lease).values_list("status", flat=True).first()
    if found is None:
        raise LeaseLost
    before = Status(found)
    if not may_move(before, status):
        raise Bug(
            "rebuild.transition",
            phrase("Ending rebuild {rebuild}", rebuild=lease.rebuild.pk),
            cause=phrase("{before} may not become {status}", before=before, status=status),
        )
    with transaction.atomic():
        moved = (
            mine(lease)
            .filter(status=before)
            .update(
                status=status,
                finished_at=clock.now(),
                target_slot=None,
                sweep_due_at=clock.now() if needs_sweep else None,
                revision=F("revision") + 1,
                **with_phrases(outcome=outcome),
                **NO_LEASE,
            )
        )
        if not moved:
            raise LeaseLost
        pass_on_source(lease.rebuild)
        Hold.objects.filter(rebuild=lease.rebuild).delete()
        _probe_soon(lease.rebuild)
        noun, ended = Phrase(lease.rebuild.traits.noun, {}), _ended(status)
        text = phrase("The {noun} has {ended}. {outcome}", noun=noun, ended=ended, outcome=outcome)
        log_event(lease.rebuild, text, level=LEVELS.get(status, Level.ERROR))
        run_again(lease.rebuild)
        comparison = row_comparisons.queue(lease.rebuild) if status is Status.SUCCEEDED else None
        append(
            actor=SYSTEM,
            action=f"rebuild.{status}",
            subject=lease.rebuild.target.name,
            instance=lease.rebuild.target.name,
            cluster=lease.rebuild.target.cluster.name,
            detail=_audit_detail(lease.rebuild, outcome),
        )
        if comparison is not None:
            audit_move(comparison, "queued")
    announce_later(lease.rebuild.pk)


def _probe_soon(rebuild: Rebuild) -> None:
    """Schedule a probe of both instances now: the target's facts are older than its new data, and a plan from them is refused."""
    instances = (rebuild.target_id, rebuild.source_id)
    InstanceState.objects.filter(instance__in=instances).update(probe_due_at=clock.now())


def _audit_detail(rebuild: Rebuild, outcome: str) -> dict[str, Any]:
    """Return the details of an end for the audit log: source, target, method and requester.

    A follow-up has cipher and bytes of the rebuild before in its plan and checkpoint, but copies nothing.
    """
    has_copied = not rebuild.traits.is_follow_up
    detail = {
        "rebuild": rebuild.pk,
        "source": rebuild.source.name,
        "method": rebuild.method,
        "cipher": rebuild.plan.get("cipher", "") if rebuild.plan and has_copied else "",
        "bytes": rebuild.checkpoint.get("stream.bytes") if has_copied else None,
        "requested_by": rebuild.requested_by.get_username() if rebuild.requested_by else "",
    }
    return {"outcome": outcome, "error": rebuild.error, **detail}


def _ended(status: Status) -> str:
    return {Status.SUCCEEDED: phrase("succeeded"), Status.CANCELLED: phrase("been cancelled")}.get(
        status, phrase("failed")
    )
