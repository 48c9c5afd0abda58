"""Row comparisons: queue, start, the driver's writes, and the end."""

import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from dbops.database import clock
from dbops.database.errors import locked
from dbops.engine.errors import Bug, Cancelled
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.certificate.record import RECORD, REST
from dbops.engine.states import RUN_ACTIVE, RUN_AT_WORK, Level, RunStatus, may_end
from dbops.lifecycle import leases
from dbops.lifecycle.events import log_event
from dbops.lifecycle.leases import Lease, LeaseLost, audit_move, extend, mine
from dbops.models import BackupRun, Hold, Maintenance, Rebuild, RebuildEvent, RowComparison

ComparisonLease: TypeAlias = Lease[RowComparison]
#: Running comparisons of all clusters: each keeps a worker busy for half of the time.
RUNNING_AT_MOST = 2
#: After so many seconds, replication runs again that was stopped for a moment, also if the driver died.
RESUMED_SECONDS = 60
#: What a comparison takes over from the checkpoint of its rebuild: what is left, and which server the target follows.
TAKEN_OVER = (REST, "rejoin")
#: The columns of an ended comparison.
_OVER: dict[str, Any] = {
    **leases.NO_LEASE,
    "cluster_slot": None,
    "is_pausing": False,
    "waiting_for": "",
    "unreachable_since": None,
}


@dataclass(slots=True)
class ComparisonUpdate:
    """News of a driver: written with the heartbeat."""

    events: list[RebuildEvent] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)


def queue(rebuild: Rebuild) -> RowComparison | None:
    """Queue the rest of a rebuild's full certificate, in the transaction in which the rebuild succeeds; ``None`` without a rest.

    The comparison of the target's earlier data no longer says anything about the target.
    """
    RowComparison.objects.filter(target=rebuild.target_id, is_current=True).update(is_current=False)
    known = Rebuild.objects.values_list("checkpoint", flat=True).get(pk=rebuild.pk)
    if REST not in known:
        return None
    comparison = RowComparison.objects.create(
        uid=secrets.token_hex(8),
        rebuild=rebuild,
        target=rebuild.target,
        status=RunStatus.QUEUED,
        queued_at=clock.now(),
        checkpoint={name: known[name] for name in TAKEN_OVER if name in known},
    )
    log_event(comparison, phrase("The comparison of all rows continues in the background."))
    return comparison


def start_what_can() -> list[int]:
    """Start queued comparisons, the oldest first: one in each cluster, and few in all. Return their ids."""
    room = RUNNING_AT_MOST - RowComparison.objects.filter(status=RunStatus.RUNNING).count()
    begun: list[int] = []
    for comparison in RowComparison.objects.filter(status=RunStatus.QUEUED).select_related("target").order_by("pk"):
        if len(begun) >= room:
            break
        if start(comparison):
            begun.append(comparison.pk)
    return begun


def start(comparison: RowComparison) -> bool:
    """Start a queued comparison if its cluster has none that runs. Return whether it started: the cluster's unique slot decides."""
    now = clock.now()
    try:
        with transaction.atomic():
            begun = (
                locked(RowComparison, comparison.pk)
                .filter(status=RunStatus.QUEUED)
                .update(
                    status=RunStatus.RUNNING,
                    started_at=now,
                    next_tick_at=now,
                    cluster_slot=comparison.target.cluster_id,
                    revision=F("revision") + 1,
                )
            )
            if begun:
                audit_move(comparison, "started")
    except IntegrityError:
        return False
    return bool(begun)


def due(now: datetime) -> list[int]:
    """Return the ids of comparisons with due work and without a living driver."""
    return leases.due(RowComparison, now)


def take_lease(comparison_id: int) -> ComparisonLease | None:
    """Become the driver of a comparison; ``None`` if it has a living driver or no due work."""
    related = ("rebuild__target__host", "rebuild__target__cluster", "rebuild__source__host", "target__cluster")
    return leases.take(RowComparison, comparison_id, *related)


def in_the_way(comparison: RowComparison) -> str:
    """Return the job or maintenance that a comparison waits for, empty if there is none. Three queries at most.

    A rebuild or backup that reads one of its servers can have paused replication there.
    """
    servers = (comparison.target_id, comparison.rebuild.source_id)
    for hold in Hold.objects.filter(instance__in=servers).select_related("instance").order_by("pk")[:1]:
        what = f"rebuild {hold.rebuild_id}" if hold.rebuild_id else f"backup run {hold.backup_run_id}"
        return f"{what} uses {hold.instance.name}"
    runs = BackupRun.objects.filter(instance__in=servers, status__in=RUN_AT_WORK).select_related("instance")
    for run in runs.order_by("pk")[:1]:
        return f"backup run {run.pk} reads {run.instance.name}"
    now = clock.now()
    current = Maintenance.objects.filter(Q(ends_at=None) | Q(ends_at__gt=now), starts_at__lte=now)
    if current.filter(cluster=comparison.target.cluster_id).exists():
        return f"maintenance of {comparison.target.cluster.name}"
    return ""


def may_pause(lease: ComparisonLease) -> str:
    """Mark that the target's replication stops for a moment. Return what is in the way, empty if it is marked.

    A job that takes the target as its source locks the same row (``make_way``): one of both sees the other.

    Raises:
        LeaseLost: another driver owns the comparison, or it has ended.
    """
    with transaction.atomic():
        if mine(lease).select_for_update().first() is None:
            raise LeaseLost
        if reason := in_the_way(lease.row):
            return reason
        mine(lease).update(is_pausing=True, paused_at=clock.now())
    return ""


def make_way(replaced: int | None, read: list[int], why: str) -> tuple[list[RowComparison], str]:
    """End the comparisons of an instance that a rebuild replaces, in the transaction in which it takes its holds.

    Args:
        replaced: primary key of the rebuild's target, if any.
        read: primary keys of the instances that the job reads.
        why: the reason of the end, part of a sentence.

    Returns:
        The ended comparisons, for ``record_replaced``; and what the job has to wait for: the moment in which the replication of its
        instances is stopped.
    """
    rows = RowComparison.objects.select_for_update().order_by("pk")
    active = list(rows.filter(target__in=[replaced, *read] if replaced else read, status__in=RUN_ACTIVE))
    for comparison in active:
        if comparison.is_pausing and (comparison.target_id in read or _has_just_paused(comparison)):
            name = comparison.target.name
            return (
                [],
                f"the row comparison of rebuild {comparison.rebuild_id} has stopped replication of {name} for a moment",
            )
    ended = [comparison for comparison in active if comparison.target_id == replaced]
    for comparison in ended:
        error = Cancelled(
            "comparison.superseded", phrase("Comparing all rows of {target}", target=comparison.target.name), cause=why
        )
        _end_at_once(comparison, error.as_record(), RUN_ACTIVE)
    return ended, ""


def _has_just_paused(comparison: RowComparison) -> bool:
    """Return whether a driver can still let the target replicate: if none can reach it, its rebuild must not wait for that."""
    since = comparison.paused_at
    return since is not None and (clock.now() - since).total_seconds() < RESUMED_SECONDS


def record_replaced(comparisons: list[RowComparison]) -> None:
    """Record in the audit log what ``make_way`` has ended."""
    for comparison in comparisons:
        audit_move(comparison, RunStatus.CANCELLED.value, code="comparison.superseded", **_counts(comparison.record))


def _end_at_once(
    comparison: RowComparison, error: dict[str, str], statuses: Collection[RunStatus], **changes: Any
) -> bool:
    """End a comparison that has one of some statuses. Its driver, if any, finds that its lease is lost. Return whether it ended."""
    ended = {**_OVER, "status": RunStatus.CANCELLED, "finished_at": clock.now(), "revision": F("revision") + 1}
    checkpoint = _without_keys(comparison.checkpoint)
    rows = RowComparison.objects.filter(pk=comparison.pk, status__in=statuses)
    if not rows.update(**{**ended, "error": error, "checkpoint": checkpoint, **changes}):
        return False
    log_event(
        comparison,
        phrase("The comparison of all rows ended. {cause}", cause=error["cause"] or error["state"]),
        level=Level.WARNING,
    )
    return True


def cancel(comparison: RowComparison, by: str) -> bool:
    """End a queued comparison at once, or request the end of a running one. Return whether it was active.

    In the caller's transaction. The driver first makes sure that the target replicates.
    """
    now = clock.now()
    rows = locked(RowComparison, comparison.pk)
    error = Cancelled(
        "comparison.cancelled", phrase("Comparing all rows of {target}", target=comparison.target.name)
    ).as_record()
    if _end_at_once(comparison, error, {RunStatus.QUEUED}, cancel_requested_at=now, cancel_requested_by=by):
        return True
    asked = rows.filter(status__in=leases.DRIVEN, cancel_requested_at=None).update(
        cancel_requested_at=now, cancel_requested_by=by, next_tick_at=now, revision=F("revision") + 1
    )
    if asked:
        log_event(
            comparison, phrase("{by} requested the end of the comparison of all rows.", by=by), level=Level.WARNING
        )
    return bool(asked)


def heartbeat(lease: ComparisonLease, update: ComparisonUpdate) -> bool:
    """Write news and extend the lease. Return whether a person requested the end. Raises ``LeaseLost``."""
    with transaction.atomic():
        changes = {**update.changes, "revision": F("revision") + 1} if update.changes else {}
        if not extend(lease, **changes):
            raise LeaseLost
        RebuildEvent.objects.bulk_create(update.events)
        return mine(lease).filter(cancel_requested_at__isnull=False).exists()


def finish(
    lease: ComparisonLease, status: RunStatus, update: ComparisonUpdate, error: dict[str, Any], text: str
) -> None:
    """Set the final status of a comparison, free its slot and record its end in the audit log.

    Args:
        error: record of the error, empty if all rows are equal.
        text: last line of the history.

    Raises:
        LeaseLost: another driver ended or owns the comparison.
        Bug: the status cannot change like this.
    """
    comparison = lease.comparison
    with transaction.atomic():
        row = mine(lease).select_for_update().values_list("status", "checkpoint").first()
        if row is None:
            raise LeaseLost
        found, stored = row
        if not may_end(RunStatus(found), status):
            raise Bug(
                "rebuild.transition",
                phrase("Ending {comparison}", comparison=comparison),
                cause=phrase("{found} may not become {status}", found=found, status=status),
            )
        checkpoint = _without_keys(update.changes.get("checkpoint", stored))
        ended = {"status": status, "finished_at": clock.now(), "error": error, "checkpoint": checkpoint}
        mine(lease).update(**{**update.changes, **_OVER, **ended, "revision": F("revision") + 1})
        RebuildEvent.objects.bulk_create(update.events)
        level = Level.INFO if status is RunStatus.SUCCEEDED else Level.ERROR
        log_event(comparison, text, level=level)
        audit_move(comparison, status.value, code=error.get("code", ""), **_counts(checkpoint.get(RECORD, {})))


def _counts(record: dict[str, Any]) -> dict[str, Any]:
    rows = record.get("rows", {})
    known = {"tables": rows.get("tables", 0), "rows": rows.get("count", 0), "until": rows.get("until", "")}
    return {**known, "compared_with": record.get("compared_with", ""), "differing": record.get("differing", 0)}


def _without_keys(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint without values of keys: only a driver needs them."""
    return {name: value for name, value in checkpoint.items() if name != "certify.rows"}
