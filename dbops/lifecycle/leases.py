"""Leases of whatever has them, rebuilds, backup runs and proofs: one driver at a time, and every write of it proves that it still is."""

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from dbops.audit.log import SYSTEM, append
from dbops.engine.audit.chain import moment
from dbops.engine.errors import Bug
from dbops.engine.states import Level, RunStatus, may_end
from dbops.lifecycle.events import last_line, log_event, revision_update
from dbops.models import BackupEvent, BackupRun, Rebuild, RestoreTest

Row = TypeVar("Row", Rebuild, BackupRun, RestoreTest)
#: Rows whose history is that of a backup run.
Run = TypeVar("Run", BackupRun, RestoreTest)

#: Status and RunStatus use the same words for these: somebody drives the row, or will again.
RUNNING, LOST = "running", "lost"
DRIVEN = (RUNNING, LOST)
#: The columns of a row that no driver owns or will own.
NO_LEASE: dict[str, Any] = {"lease_owner": "", "lease_until": None, "next_tick_at": None}


class LeaseLost(Exception):
    """Another driver owns the row now, or it has ended: this one must not act any more."""


@dataclass(frozen=True, slots=True)
class Lease(Generic[Row]):
    """The right of one driver to act on one rebuild, backup run or proof until a time that each heartbeat moves."""

    row: Row
    owner: str
    reattached_after_seconds: float | None

    @property
    def rebuild(self: "Lease[Rebuild]") -> Rebuild:
        return self.row

    @property
    def run(self: "Lease[BackupRun]") -> BackupRun:
        return self.row

    @property
    def restore_test(self: "Lease[RestoreTest]") -> RestoreTest:
        return self.row


@dataclass(slots=True)
class Update:
    """What the driver of a backup run or a restore test has to write: gathered for a second, then written with the heartbeat."""

    events: list[BackupEvent] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.events or self.changes)


def without_driver(model: type[Row], now: datetime) -> QuerySet[Any]:
    """Return the rows that have work due and no living owner."""
    rows: QuerySet[Any] = model._default_manager.filter(status__in=DRIVEN, next_tick_at__lte=now)
    return rows.filter(Q(lease_until=None) | Q(lease_until__lt=now))


def due(model: type[Row], now: datetime) -> list[int]:
    """Return their ids."""
    return list(without_driver(model, now).values_list("pk", flat=True))


def take(model: type[Row], pk: int, *related: str) -> Lease[Row] | None:
    """Become the driver of a row, or ``None`` when it has a living one or nothing to do: a second delivery is no act."""
    now, owner = timezone.now(), secrets.token_hex(8)
    rows: QuerySet[Any] = model._default_manager.filter(pk=pk)
    before = rows.values("lease_owner", "heartbeat_at").first()
    silence = None
    if before and before["lease_owner"] and before["heartbeat_at"]:
        silence = (now - before["heartbeat_at"]).total_seconds()
    with transaction.atomic():
        taken = (
            rows.filter(status__in=DRIVEN)
            .filter(Q(lease_until=None) | Q(lease_until__lt=now))
            .update(lease_owner=owner, lease_until=_end(now), heartbeat_at=now, fence=F("fence") + 1)
        )
        if not taken:
            return None
        row = rows.select_related(*related).get()
        if silence is not None:
            _audit_take_over(row, silence)
    return Lease(row, owner, silence)


def _audit_take_over(row: Rebuild | BackupRun | RestoreTest, silence: float) -> None:
    """The driver before gave nothing back: it died, was ended, or was too slow. Another one goes on with its work."""
    audit_move(row, "taken_over", silent_seconds=round(silence), fence=row.fence)


def audit_move(
    row: Rebuild | BackupRun | RestoreTest, word: str, *, by: str = SYSTEM, reason: str = "", **detail: Any
) -> None:
    """Write what became of a row: the last thing of its transaction. ``by``: the product, or a person."""
    match row:
        case Rebuild():
            kind, subject, about = "rebuild", row.target.name, {"rebuild": row.pk}
        case RestoreTest():
            kind, subject, about = "restore_test", row.source.name, {"restore_test": row.pk, "backup_run": row.run_id}
        case _:
            kind, subject, about = "backup", row.instance.name, {"backup_run": row.pk}
    append(actor=by, reason=reason, action=f"{kind}.{word}", subject=subject, detail={**about, **detail})


def mine(lease: Lease[Row]) -> QuerySet[Any]:
    """Return the row while the lease is ours and it has not ended, else nothing."""
    rows: QuerySet[Any] = type(lease.row)._default_manager.filter(
        pk=lease.row.pk, lease_owner=lease.owner, status__in=DRIVEN
    )
    return rows


def extend(lease: Lease[Row], **changes: Any) -> bool:
    """Move the lease's end, and write changes with it. Return whether the lease was still ours."""
    now = timezone.now()
    return bool(mine(lease).update(heartbeat_at=now, lease_until=_end(now), **changes))


def _end(now: datetime) -> datetime:
    return now + timedelta(seconds=settings.LEASE_SECONDS)


def renew(lease: Lease[Row]) -> bool:
    """Move the lease's end while its driver waits for a host. Return whether it is still ours."""
    return extend(lease)


def heartbeat(lease: Lease[Run], update: Update) -> bool:
    """Write what is new and move the lease's end. Return whether a person asked for the end. Raises ``LeaseLost``."""
    with transaction.atomic():
        changes = {**update.changes, "revision": F("revision") + 1} if update else {}
        if not extend(lease, **changes):
            raise LeaseLost
        if update:
            BackupEvent.objects.bulk_create(update.events)
            revision_update(lease.row)
        return mine(lease).filter(cancel_requested_at__isnull=False).exists()


def finish(lease: Lease[Run], status: RunStatus, update: Update, **changes: Any) -> None:
    """Give a backup run or a restore test its last status and end its lease. In the caller's transaction.

    Raises:
        LeaseLost: another driver did it, or owns the row.
        Bug: the row may not become ``status``.
    """
    found = mine(lease).values_list("status", flat=True).first()
    if found is None:
        raise LeaseLost
    if not may_end(RunStatus(found), status):
        raise Bug("backup.transition", f"Ending {lease.row}", cause=f"{found} may not become {status}")
    ended = {"status": status, "finished_at": timezone.now(), "revision": F("revision") + 1, **NO_LEASE}
    if not mine(lease).filter(status=found).update(**{**update.changes, **changes, **ended}):
        raise LeaseLost
    BackupEvent.objects.bulk_create(update.events)


def release_lease(lease: Lease[Row], wait_seconds: float) -> None:
    """Give the row to whoever comes next, after ``wait_seconds``. A lease that is lost already is no error."""
    mine(lease).update(lease_owner="", lease_until=None, next_tick_at=timezone.now() + timedelta(seconds=wait_seconds))


def log_trouble(lease: Lease[Row], text: str) -> None:
    """Tell what keeps a driver from driving, once for each text."""
    if last_line(lease.row) != text:
        log_event(lease.row, text, level=Level.ERROR)
        revision_update(lease.row)


def mark_unreachable(lease: Lease[Row], text: str) -> datetime:
    """Note that a host does not answer; after a while nothing is known any more and the row is ``lost``.

    Return since when it has been silent. Raises ``LeaseLost``.
    """
    now = timezone.now()
    with transaction.atomic():
        row = mine(lease).select_for_update().first()
        if row is None:
            raise LeaseLost
        since: datetime = row.unreachable_since or now
        changes: dict[str, Any] = {"unreachable_since": since, "revision": row.revision + 1}
        if row.unreachable_since is None:
            log_event(lease.row, text, level=Level.WARNING)
        if row.status == RUNNING and (now - since).total_seconds() > settings.LOST_AFTER_SECONDS:
            changes["status"] = LOST
            log_event(lease.row, f"Lost since {since:%H:%M:%S} UTC: {text} The holds stay.", level=Level.ERROR)
        mine(lease).update(**changes)
        if "status" in changes:
            audit_move(lease.row, "lost", since=moment(since))
    lease.row.status = changes.get("status", row.status)
    revision_update(lease.row)
    return since


def mark_reachable(lease: Lease[Row]) -> None:
    """The hosts answer again. Raises ``LeaseLost``."""
    with transaction.atomic():
        row = mine(lease).select_for_update().first()
        if row is None:
            raise LeaseLost
        if row.unreachable_since is None and row.status == RUNNING:
            return
        seconds = (timezone.now() - row.unreachable_since).total_seconds() if row.unreachable_since else 0
        mine(lease).update(status=RUNNING, unreachable_since=None, revision=row.revision + 1)
        log_event(lease.row, f"The hosts answer again: re-attached after {seconds:.0f} s.")
        if row.status == LOST:
            audit_move(lease.row, "found_again", silent_seconds=round(seconds))
    lease.row.unreachable_since = None
    revision_update(lease.row)
