"""Start queued rebuilds and backup runs: take their holds, or record what they wait for."""

import secrets
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, OperationalError, transaction
from django.db.models import Case, F, QuerySet, Value, When

from dbops.database import clock
from dbops.database.errors import locked, lost_a_race
from dbops.engine.methods import method_named
from dbops.engine.phrases import phrase
from dbops.engine.schedule.scheduler import JobKind, hold_reason
from dbops.engine.states import LATE, Approval, Status
from dbops.lifecycle import row_comparisons
from dbops.lifecycle.events import announce_many_later, log_event, log_events, revision_update
from dbops.lifecycle.leases import audit_move
from dbops.models import BackupRun, Hold, Instance, Rebuild

REASON_CHARACTERS: int = Rebuild._meta.get_field("waiting_for").max_length or 0
#: Rows of one statement: databases limit its length.
BATCH_ROWS = 400


class _ConditionUnmet(Exception):
    """A condition became unmet after the decision to start."""


class NotQueued(Exception):
    """The row is no longer queued."""


def held() -> dict[int, str]:
    """Return the holder of an instance in words, by the instance's primary key. One query."""
    rows = Hold.objects.values_list("instance_id", "instance__name", "purpose", "rebuild_id", "backup_run_id")
    return {
        instance: hold_reason(name, JobKind.BACKUP if run else JobKind.REBUILD, run or rebuild or 0, purpose)
        for instance, name, purpose, rebuild, run in rows.order_by()
    }


def claims_of(row: Rebuild | BackupRun) -> list[tuple[Instance, str]]:
    """Return the instances that a rebuild or managed backup run holds from its start, each with its purpose.

    A follower does not hold its source: its leader does, and passes the hold on (``shared_reads``).
    """
    if isinstance(row, BackupRun):
        return [(row.instance, "backup")]
    holds_source = method_named(row.method).reads_source and row.leader_id is None
    claims = [(row.source, "source")] if holds_source else []
    return [*claims, (row.target, "target")]


def start(row: Rebuild | BackupRun, unmet_conditions: Callable[[], str] = lambda: "") -> str:
    """Take the holds of a queued rebuild or backup run and start it. Return ``""``, or what it waits for.

    The row comes first, so that a concurrent start waits; then the holds, always in the same order, so that two starts with the
    same two instances cannot deadlock.

    Args:
        unmet_conditions: returns the unmet conditions besides holds, or ``""``. Called in the transaction of the start, after the holds are
            taken: the decision may be some seconds old.
    """
    now = clock.now()
    claims = sorted(claims_of(row), key=lambda claim: claim[0].pk)
    owner = {"rebuild": row} if isinstance(row, Rebuild) else {"backup_run": row}
    try:
        with transaction.atomic():
            moved = _startable(row).update(
                status=Status.RUNNING,
                run_token=secrets.token_hex(16),
                started_at=now,
                next_tick_at=now,
                waiting_for="",
                revision=F("revision") + 1,
                **_known_at_start(row, now),
            )
            if not moved:
                raise NotQueued
            Hold.objects.bulk_create(
                Hold(instance=instance, purpose=purpose, taken_at=now, **owner) for instance, purpose in claims
            )
            if reason := unmet_conditions() or _leader_is_away(row):
                raise _ConditionUnmet(reason)
            replaced = next((instance.pk for instance, purpose in claims if purpose == "target"), None)
            read = [instance.pk for instance, purpose in claims if purpose != "target"]
            ended, reason = row_comparisons.make_way(replaced, read, f"{row} of this instance started")
            if reason:
                raise _ConditionUnmet(reason)
            log_event(row, _started(row, now))
            audit_move(row, "started", **_audited_start(row))
            row_comparisons.record_replaced(ended)
    except _ConditionUnmet as closed:
        return wait(row, str(closed))
    except IntegrityError:
        return _wait_for_holds(row)
    except OperationalError as error:
        if not lost_a_race(error):
            raise
        return _wait_for_holds(row)
    except NotQueued:
        if isinstance(row, Rebuild) and _waits_for_approval(row):
            return wait(row, unmet_conditions() or "other people must approve it")
        return "it is no longer queued"
    revision_update(row)
    return ""


def _startable(row: Rebuild | BackupRun) -> QuerySet[Rebuild] | QuerySet[BackupRun]:
    """Return the row if it may start. The start conditions report a missing approval in words; this check works without them."""
    if isinstance(row, Rebuild):
        # its role decides its holds: it may have joined a shared read since the row was read
        queued = locked(Rebuild, row.pk).filter(status=Status.QUEUED, cancel_requested_at=None, leader=row.leader_id)
        return queued.exclude(approval=Approval.WAITING)
    return locked(BackupRun, row.pk).filter(status=Status.QUEUED, cancel_requested_at=None)


def _leader_is_away(row: Rebuild | BackupRun) -> str:
    """Return a reason to wait if the leader of this follower is not running: no rebuild would hold the source."""
    if not isinstance(row, Rebuild) or row.leader_id is None:
        return ""
    runs = Rebuild.objects.filter(pk=row.leader_id, status=Status.RUNNING, pending_status="").exists()
    return "" if runs else f"it starts together with rebuild {row.leader_id}"


def _waits_for_approval(rebuild: Rebuild) -> bool:
    return Rebuild.objects.filter(pk=rebuild.pk, status=Status.QUEUED, approval=Approval.WAITING).exists()


def _started(row: Rebuild | BackupRun, now: datetime) -> str:
    if isinstance(row, BackupRun):
        late = (now - row.due_at).total_seconds() if is_late(row, now) and row.due_at else 0
        return phrase("Started, {seconds} s after it was due.", seconds=f"{late:.0f}") if late else phrase("Started.")
    after = row.start_after_run
    return (
        phrase("Started, as backup run {run} has ended: {status}.", run=after.pk, status=after.status)
        if after
        else phrase("Started.")
    )


def _audited_start(row: Rebuild | BackupRun) -> dict[str, Any]:
    if isinstance(row, BackupRun):
        return {"schedule": row.schedule.name if row.schedule else ""}
    return {"source": row.source.name, "method": row.method, "fingerprint": row.plan_fingerprint}


def _known_at_start(row: Rebuild | BackupRun, now: datetime) -> dict[str, Any]:
    if isinstance(row, BackupRun) and is_late(row, now):
        return {"flags": sorted({*row.flags, LATE})}
    return {}


def is_late(run: BackupRun, now: datetime) -> bool:
    """Return whether a run that starts now exceeds the schedule's maximum delay."""
    if run.due_at is None or run.schedule is None:
        return False
    return (now - run.due_at).total_seconds() > run.schedule.late_after_seconds


def _wait_for_holds(row: Rebuild | BackupRun) -> str:
    holds = held()
    reasons = [holds[instance.pk] for instance, _ in claims_of(row) if instance.pk in holds]
    return wait(row, "; ".join(reasons) or "the holds were taken a moment ago")


def wait(row: Rebuild | BackupRun, reason: str) -> str:
    """Record what a queued job waits for, with one event per reason. Return the reason."""
    reason = reason[:REASON_CHARACTERS]
    if reason != row.waiting_for:
        write_waits(type(row), {row.pk: (row.waiting_for, reason)})
    return reason


def write_waits(model: type[Rebuild] | type[BackupRun], changes: Mapping[int, tuple[str, str]]) -> None:
    """Record what many jobs wait for, with one event per reason: some statements for hundreds of rows.

    Args:
        model: of the rows.
        changes: primary key to the reason that was read with the row, and the new one. Only that reason is replaced, so an older
            view changes nothing.
    """
    keys = sorted(changes)
    for first in range(0, len(keys), BATCH_ROWS):
        batch = {key: changes[key] for key in keys[first : first + BATCH_ROWS]}
        with transaction.atomic():
            # locked by primary key alone, for the reason given at `locked`
            rows: QuerySet[Any] = model._default_manager.filter(pk__in=batch).order_by("pk").select_for_update()
            found = rows.values_list("pk", "status", "waiting_for", "revision")
            queued = [row for row in found if row[1] == Status.QUEUED]
            revisions = {pk: revision + 1 for pk, _, logged, revision in queued if logged == batch[pk][0]}
            _write_batch(model, {pk: batch[pk][1] for pk in revisions})
            if model is Rebuild:
                announce_many_later(revisions.items())


def _write_batch(model: type[Rebuild] | type[BackupRun], reasons: Mapping[int, str]) -> None:
    if not reasons:
        return
    by_reason: dict[str, list[int]] = {}
    for pk, reason in reasons.items():
        by_reason.setdefault(reason, []).append(pk)
    new = Case(*(When(pk__in=keys, then=Value(reason)) for reason, keys in by_reason.items()))
    rows: QuerySet[Any] = model._default_manager.filter(pk__in=reasons)
    rows.update(waiting_for=new, revision=F("revision") + 1)
    log_events(model, {pk: phrase("Waiting: {reason}.", reason=reason) for pk, reason in reasons.items()})
