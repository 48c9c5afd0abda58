"""Leases of jobs (rebuilds, backup runs, restore and load tests, row comparisons): one driver each, whose writes check the lease."""

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeAlias, TypeVar

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Greatest

from dbops.audit.log import SYSTEM, append
from dbops.database import clock
from dbops.engine.audit.chain import moment
from dbops.engine.errors import Bug
from dbops.engine.phrases import phrase
from dbops.engine.states import Level, RunStatus, may_end
from dbops.lifecycle.clock_steps import UNSEEN, last_step_back
from dbops.lifecycle.events import RunEvent, last_line, log_event, revision_update, save_events, was_logged
from dbops.models import BackupRun, ClockStep, LoadTest, Rebuild, RestoreTest, RowComparison
from dbops.models.leased import TOKENS_PER_SECOND

Row = TypeVar("Row", Rebuild, BackupRun, RestoreTest, LoadTest, RowComparison)
LeasedRow: TypeAlias = Rebuild | BackupRun | RestoreTest | LoadTest | RowComparison
#: Rows of one detached job.
Run = TypeVar("Run", BackupRun, RestoreTest, LoadTest)

#: Status and RunStatus use the same words for these: a driver has the row, or will have it again.
RUNNING, LOST = "running", "lost"
DRIVEN = (RUNNING, LOST)
#: The columns of a row without a driver that will not get one.
NO_LEASE: dict[str, Any] = {"lease_owner": "", "lease_until": None, "next_tick_at": None}


class LeaseLost(Exception):
    """Another driver owns the row now, or the row has ended: this driver must stop."""


@dataclass(frozen=True, slots=True)
class Lease(Generic[Row]):
    """The right of one driver to drive one row until a time that each heartbeat extends."""

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

    @property
    def load_test(self: "Lease[LoadTest]") -> LoadTest:
        return self.row

    @property
    def comparison(self: "Lease[RowComparison]") -> RowComparison:
        return self.row


@dataclass(slots=True)
class Update:
    """News of the driver of a backup run, restore test or load test: collected for a second, then written with the heartbeat."""

    events: list[RunEvent] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.events or self.changes)


def without_driver(model: type[Row], now: datetime) -> QuerySet[Any]:
    """Return the rows with due work and without a living driver."""
    rows: QuerySet[Any] = model._default_manager.filter(status__in=DRIVEN, next_tick_at__lte=now)
    return rows.filter(Q(lease_until=None) | Q(lease_until__lt=now))


def due(model: type[Row], now: datetime) -> list[int]:
    """Return the ids of rows with due work and without a living driver."""
    return list(without_driver(model, now).values_list("pk", flat=True))


def take(model: type[Row], pk: int, *related: str) -> Lease[Row] | None:
    """Become the driver of a row; ``None`` if it has a living driver or no due work. A second delivery does nothing."""
    now, owner = clock.now(), secrets.token_hex(8)
    rows: QuerySet[Any] = model._default_manager.filter(pk=pk)
    before = rows.values("lease_owner", "heartbeat_at", "started_at").first()
    silence, lowest = None, lowest_fence(before["started_at"], now, last_step_back(now)) if before else 0
    if before and before["lease_owner"] and before["heartbeat_at"]:
        silence = (now - before["heartbeat_at"]).total_seconds()
    with transaction.atomic():
        taken = (
            rows.filter(status__in=DRIVEN)
            .filter(Q(lease_until=None) | Q(lease_until__lt=now))
            .update(lease_owner=owner, lease_until=_end(now), heartbeat_at=now, fence=Greatest(F("fence") + 1, lowest))
        )
        if not taken:
            return None
        row = rows.select_related(*related).get()
        if silence is not None:
            _audit_take_over(row, silence)
    return Lease(row, owner, silence)


def lowest_fence(started_at: datetime | None, now: datetime, step: ClockStep | None = None) -> int:
    """Return the lowest fence of a lease taken ``now``, in tenths of a second since the second of the start.

    It is more than the leases so far: the hosts may have seen larger fences than the row has, if an older copy of the
    database was put back. ``host_token`` has room for 27 hours of them between the starts of two runs in successive seconds.

    Args:
        step: the step back whose time was not reached again: until then hosts have seen tokens of runs with later starts.
    """
    if started_at is None:
        return 0
    begun, highest = int(started_at.timestamp()), int((step.before + UNSEEN).timestamp()) if step else 0
    if step is not None and begun < highest:
        since_step = int((now - step.at).total_seconds() * 10)
        return (highest - begun) * TOKENS_PER_SECOND + max(0, since_step)
    return max(0, int(now.timestamp() * 10) - begun * 10)


def _audit_take_over(row: LeasedRow, silence: float) -> None:
    """Record that another driver continues: the one before did not release the row, because it died, was ended or was too slow."""
    audit_move(row, "taken_over", silent_seconds=round(silence), fence=row.fence)


def audit_move(row: LeasedRow, word: str, *, by: str = SYSTEM, reason: str = "", **detail: Any) -> None:
    """Record the end of a row in the audit log, as the last write of its transaction. ``by``: dbops, or a person."""
    about: dict[str, Any]
    match row:
        case Rebuild():
            kind, subject, about = "rebuild", row.target.name, {"rebuild": row.pk}
        case RestoreTest():
            kind, subject, about = "restore_test", row.source.name, {"restore_test": row.pk, "backup_run": row.run_id}
        case LoadTest():
            kind, subject, about = "load_test", row.host.name, {"load_test": row.pk, "source": row.source.name}
        case RowComparison():
            kind, subject, about = "comparison", row.target.name, {"comparison": row.pk, "rebuild": row.rebuild_id}
        case _:
            kind, subject, about = "backup", row.instance.name, {"backup_run": row.pk}
    instance = row.source.name if isinstance(row, LoadTest) else ""
    append(
        actor=by,
        reason=reason,
        action=f"{kind}.{word}",
        subject=subject,
        instance=instance,
        detail={**about, **detail},
    )


def mine(lease: Lease[Row]) -> QuerySet[Any]:
    """Return the row while the lease is ours and the row has not ended, else none."""
    rows: QuerySet[Any] = type(lease.row)._default_manager.filter(
        pk=lease.row.pk, lease_owner=lease.owner, status__in=DRIVEN
    )
    return rows


def extend(lease: Lease[Row], **changes: Any) -> bool:
    """Extend the lease, and write changes with it. Return whether the lease was still ours."""
    now = clock.now()
    return bool(mine(lease).update(heartbeat_at=now, lease_until=_end(now), **changes))


def _end(now: datetime) -> datetime:
    return now + timedelta(seconds=settings.LEASE_SECONDS)


def renew(lease: Lease[Row]) -> bool:
    """Extend the lease while its driver waits for a host. Return whether it is still ours."""
    return extend(lease)


def heartbeat(lease: Lease[Run], update: Update) -> bool:
    """Write news and extend the lease. Return whether a person requested the end. Raises ``LeaseLost``."""
    with transaction.atomic():
        changes = {**update.changes, "revision": F("revision") + 1} if update else {}
        if not extend(lease, **changes):
            raise LeaseLost
        if update:
            save_events(update.events)
            revision_update(lease.row)
        return mine(lease).filter(cancel_requested_at__isnull=False).exists()


def finish(lease: Lease[Run], status: RunStatus, update: Update, **changes: Any) -> None:
    """Set the final status of a backup run, restore test or load test and end its lease, in the caller's transaction.

    Raises:
        LeaseLost: another driver ended or owns the row.
        Bug: the row cannot change to ``status``.
    """
    found = mine(lease).values_list("status", flat=True).first()
    if found is None:
        raise LeaseLost
    if not may_end(RunStatus(found), status):
        raise Bug(
            "backup.transition",
            phrase("Ending {row}", row=lease.row),
            cause=phrase("{found} may not become {status}", found=found, status=status),
        )
    ended = {
        "status": status,
        "finished_at": clock.now(),
        "unreachable_since": None,
        "revision": F("revision") + 1,
        **NO_LEASE,
    }
    if not mine(lease).filter(status=found).update(**{**update.changes, **changes, **ended}):
        raise LeaseLost
    save_events(update.events)


def release_lease(lease: Lease[Row], wait_seconds: float) -> None:
    """Release the row for another driver after ``wait_seconds``. A lease that is already lost is no error."""
    mine(lease).update(lease_owner="", lease_until=None, next_tick_at=clock.now() + timedelta(seconds=wait_seconds))


def log_trouble(lease: Lease[Row], text: str) -> None:
    """Log the problem that stops a driver, once for each text."""
    if last_line(lease.row) != text:
        log_event(lease.row, text, level=Level.ERROR)
        revision_update(lease.row)


def mark_unreachable(lease: Lease[Row], text: str, *, is_refusal: bool = False) -> datetime:
    """Record that a host does not answer; after a while the row becomes ``lost``.

    Args:
        text: a line of the history. Only the first one of a silence is logged.
        is_refusal: the host answers, and refuses dbops. Each such text is logged once in a silence, because a person must act.

    Return since when it has been silent. Raises ``LeaseLost``.
    """
    now = clock.now()
    with transaction.atomic():
        row = mine(lease).select_for_update().first()
        if row is None:
            raise LeaseLost
        since: datetime = row.unreachable_since or now
        changes: dict[str, Any] = {"unreachable_since": since, "revision": row.revision + 1}
        if row.unreachable_since is None or (is_refusal and not was_logged(row, text, since)):
            log_event(lease.row, text, level=Level.WARNING)
        if row.status == RUNNING and (now - since).total_seconds() > settings.LOST_AFTER_SECONDS:
            changes["status"] = LOST
            stays = "" if isinstance(lease.row, RowComparison | LoadTest) else phrase(" The holds stay.")
            log_event(
                lease.row,
                phrase("Lost since {since} UTC: {text}{stays}", since=f"{since:%H:%M:%S}", text=text, stays=stays),
                level=Level.ERROR,
            )
        mine(lease).update(**changes)
        if "status" in changes:
            audit_move(lease.row, "lost", since=moment(since))
    lease.row.status = changes.get("status", row.status)
    revision_update(lease.row)
    return since


def mark_reachable(lease: Lease[Row]) -> None:
    """Record that the hosts answer again. Raises ``LeaseLost``."""
    with transaction.atomic():
        row = mine(lease).select_for_update().first()
        if row is None:
            raise LeaseLost
        if row.unreachable_since is None and row.status == RUNNING:
            return
        seconds = (clock.now() - row.unreachable_since).total_seconds() if row.unreachable_since else 0
        mine(lease).update(status=RUNNING, unreachable_since=None, revision=row.revision + 1)
        log_event(lease.row, phrase("The hosts answer again: re-attached after {seconds} s.", seconds=f"{seconds:.0f}"))
        if row.status == LOST:
            audit_move(lease.row, "found_again", silent_seconds=round(seconds))
    lease.row.unreachable_since = None
    revision_update(lease.row)
