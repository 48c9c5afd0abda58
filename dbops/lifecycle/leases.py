"""Driving: one driver at a time holds the lease, and every write of it proves that it still does."""

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from dbops.engine.errors import Bug
from dbops.engine.states import STEP_FINAL, Level, Status, StepState, may_move
from dbops.lifecycle.telling import announce_later, tell
from dbops.models import AuditEntry, Command, Event, Hold, Rebuild, Step

#: How the last line of a rebuild's history reads.
LEVELS = {Status.SUCCEEDED: Level.INFO, Status.CANCELLED: Level.WARNING}


class LeaseLost(Exception):
    """Another driver owns the rebuild now, or it has ended: this one must not act any more."""


@dataclass(slots=True)
class News:
    """What a driver has to write: gathered for a second, then written in one transaction with the heartbeat."""

    events: list[Event] = field(default_factory=list)
    started_commands: dict[str, Command] = field(default_factory=dict)
    finished_commands: dict[str, tuple[int | None, str, datetime]] = field(default_factory=dict)
    progress: tuple[str, dict[str, Any]] | None = None

    def __bool__(self) -> bool:
        return bool(self.events or self.started_commands or self.finished_commands or self.progress)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one driver to act on one rebuild until a time that each heartbeat moves."""

    rebuild: Rebuild
    owner: str
    reattached_after_seconds: float | None


def due(now: datetime) -> list[int]:
    """Return the ids of rebuilds that have work due and no living owner."""
    return list(
        Rebuild.objects.filter(status__in=(Status.RUNNING, Status.LOST), next_tick_at__lte=now)
        .filter(Q(lease_until=None) | Q(lease_until__lt=now))
        .values_list("pk", flat=True)
    )


def take_lease(rebuild_id: int) -> Lease | None:
    """Become the driver of a rebuild, or ``None`` when it has a living one or nothing to do: a second delivery is no act."""
    now, owner = timezone.now(), secrets.token_hex(8)
    before = Rebuild.objects.filter(pk=rebuild_id).values("lease_owner", "heartbeat_at").first()
    taken = (
        Rebuild.objects.filter(pk=rebuild_id, status__in=(Status.RUNNING, Status.LOST))
        .filter(Q(lease_until=None) | Q(lease_until__lt=now))
        .update(
            lease_owner=owner,
            lease_until=now + timedelta(seconds=settings.LEASE_SECONDS),
            heartbeat_at=now,
            fence=F("fence") + 1,
        )
    )
    if not taken:
        return None
    silence = None
    if before and before["lease_owner"] and before["heartbeat_at"]:
        silence = (now - before["heartbeat_at"]).total_seconds()
    rebuild = Rebuild.objects.select_related("target__host", "target__cluster", "source__host", "requested_by").get(
        pk=rebuild_id
    )
    return Lease(rebuild, owner, silence)


def _mine(lease: Lease) -> Any:
    return Rebuild.objects.filter(
        pk=lease.rebuild.pk, lease_owner=lease.owner, status__in=(Status.RUNNING, Status.LOST)
    )


def beat(lease: Lease, news: News, memory: dict[str, Any] | None) -> bool:
    """Write what is new, prove the lease and move its end. Return whether a cancel is asked for.

    ``memory`` is ``None`` where it has not changed.

    Raises:
        LeaseLost: the lease is not ours any more; nothing of ``news`` was written.
    """
    now = timezone.now()
    with transaction.atomic():
        changes: dict[str, Any] = {"revision": F("revision") + 1} if news else {}
        if memory is not None:
            changes["memory"] = memory
        if not _mine(lease).update(
            heartbeat_at=now, lease_until=now + timedelta(seconds=settings.LEASE_SECONDS), **changes
        ):
            raise LeaseLost
        write_news(lease.rebuild, news)
        cancel = Rebuild.objects.filter(pk=lease.rebuild.pk, cancel_requested_at__isnull=False).exists()
    if news:
        announce_later(lease.rebuild.pk)
    return cancel


def renew(lease: Lease) -> bool:
    """Move the lease's end while its driver waits for a host. Return whether it is still ours."""
    now = timezone.now()
    return bool(_mine(lease).update(heartbeat_at=now, lease_until=now + timedelta(seconds=settings.LEASE_SECONDS)))


def tell_trouble(lease: Lease, text: str) -> None:
    """Tell what keeps a driver from driving, once for each text."""
    if lease.rebuild.events.order_by("-pk").values_list("text", flat=True).first() != text:
        tell(lease.rebuild, text, level=Level.ERROR)
        announce_later(lease.rebuild.pk)


def write_news(rebuild: Rebuild, news: News) -> None:
    """Write events, commands and progress, within the caller's transaction."""
    Event.objects.bulk_create(news.events)
    Command.objects.bulk_create(news.started_commands.values(), ignore_conflicts=True)
    for key, (exit_status, output, at) in news.finished_commands.items():
        Command.objects.filter(rebuild=rebuild, key=key, finished_at=None).update(
            exit_status=exit_status, output=output, finished_at=at
        )
    if news.progress:
        name, known = news.progress
        Step.objects.filter(rebuild=rebuild, name=name).update(progress=known)


def begin_step(lease: Lease, name: str) -> None:
    """Mark a step as running; a second call (after re-attaching) keeps the first time. Raises ``LeaseLost``."""
    with transaction.atomic():
        if not _mine(lease).update(revision=F("revision") + 1):
            raise LeaseLost
        lease.rebuild.steps.filter(name=name, state=StepState.PENDING).update(
            state=StepState.RUNNING, started_at=timezone.now()
        )
    announce_later(lease.rebuild.pk)


def end_step(
    lease: Lease, name: str, state: StepState, result: dict[str, Any], news: News, memory: dict[str, Any]
) -> None:
    """Close a step with its result, together with the last news of it. Raises ``LeaseLost``."""
    with transaction.atomic():
        if not _mine(lease).update(memory=memory, revision=F("revision") + 1):
            raise LeaseLost
        write_news(lease.rebuild, news)
        lease.rebuild.steps.filter(name=name).exclude(state__in=STEP_FINAL).update(
            state=state, finished_at=timezone.now(), result=result
        )
    announce_later(lease.rebuild.pk)


def end_badly(
    lease: Lease,
    name: str,
    status: Status,
    result: dict[str, Any],
    news: News,
    memory: dict[str, Any],
    *,
    last_step: str,
    error: dict[str, str],
    text: str,
) -> None:
    """A step failed or a person cancelled: close it, and skip what is left but for the clean-up, in one transaction.

    Raises:
        LeaseLost: the lease is not ours any more, or the ending has begun already; nothing was written.
    """
    state = StepState.CANCELLED if status is Status.CANCELLED else StepState.FAILED
    with transaction.atomic():
        end_step(lease, name, state, result, news, memory)
        changes = {"ending": status, "error": error}
        if not _mine(lease).filter(ending="").update(revision=F("revision") + 1, **changes):
            raise LeaseLost
        pending = lease.rebuild.steps.filter(state=StepState.PENDING).exclude(name=last_step)
        pending.update(state=StepState.SKIPPED)
        if text:
            tell(lease.rebuild, text, level=Level.ERROR)
    lease.rebuild.ending, lease.rebuild.error = status, error
    announce_later(lease.rebuild.pk)


def finish(lease: Lease, status: Status, outcome: str, *, needs_sweep: bool = False) -> None:
    """Give the rebuild its last status, free its holds and its target, and write it into the audit log.

    ``needs_sweep``: something is left on a host that did not answer.

    Raises:
        LeaseLost: another driver did it, or owns it.
        Bug: the move is not allowed.
    """
    found = _mine(lease).values_list("status", flat=True).first()
    if found is None:
        raise LeaseLost
    before = Status(found)
    if not may_move(before, status):
        raise Bug("rebuild.transition", f"Ending rebuild {lease.rebuild.pk}", found=f"{before} may not become {status}")
    with transaction.atomic():
        moved = (
            _mine(lease)
            .filter(status=before)
            .update(
                status=status,
                finished_at=timezone.now(),
                outcome=outcome,
                target_slot=None,
                lease_owner="",
                lease_until=None,
                next_tick_at=None,
                sweep_due_at=timezone.now() if needs_sweep else None,
                revision=F("revision") + 1,
            )
        )
        if not moved:
            raise LeaseLost
        Hold.objects.filter(rebuild=lease.rebuild).delete()
        tell(
            lease.rebuild,
            f"The rebuild has {_ended(status)}. {outcome}",
            level=LEVELS.get(status, Level.ERROR),
        )
        AuditEntry.objects.create(
            at=timezone.now(),
            actor="dbops",
            action=f"rebuild.{status}",
            subject=lease.rebuild.target.name,
            detail={"rebuild": lease.rebuild.pk, "outcome": outcome, "error": lease.rebuild.error},
        )
    announce_later(lease.rebuild.pk)


def _ended(status: Status) -> str:
    return {Status.SUCCEEDED: "succeeded", Status.CANCELLED: "been cancelled"}.get(status, "failed")


def mark_unreachable(lease: Lease, text: str) -> datetime:
    """Note that a host does not answer; after a while nothing is known any more and the rebuild is ``lost``.

    Return since when it has been silent. Raises ``LeaseLost``.
    """
    now = timezone.now()
    with transaction.atomic():
        row = _mine(lease).select_for_update().first()
        if row is None:
            raise LeaseLost
        since = row.unreachable_since or now
        changes: dict[str, Any] = {"unreachable_since": since, "revision": row.revision + 1}
        if row.unreachable_since is None:
            tell(lease.rebuild, text, level=Level.WARNING)
        if row.status == Status.RUNNING and (now - since).total_seconds() > settings.LOST_AFTER_SECONDS:
            changes["status"] = Status.LOST
            tell(lease.rebuild, f"Lost since {since:%H:%M:%S} UTC: {text} The holds stay.", level=Level.ERROR)
        _mine(lease).update(**changes)
    lease.rebuild.status = changes.get("status", row.status)
    announce_later(lease.rebuild.pk)
    return since


def mark_reachable(lease: Lease) -> None:
    """The hosts answer again. Raises ``LeaseLost``."""
    with transaction.atomic():
        row = _mine(lease).select_for_update().first()
        if row is None:
            raise LeaseLost
        if row.unreachable_since is None and row.status == Status.RUNNING:
            return
        seconds = (timezone.now() - row.unreachable_since).total_seconds() if row.unreachable_since else 0
        _mine(lease).update(status=Status.RUNNING, unreachable_since=None, revision=row.revision + 1)
        tell(lease.rebuild, f"The hosts answer again: re-attached after {seconds:.0f} s.")
    lease.rebuild.unreachable_since = None
    announce_later(lease.rebuild.pk)


def release_lease(lease: Lease, wait_seconds: float) -> None:
    """Give the rebuild to whoever comes next, after ``wait_seconds``. A lease that is lost already is no error."""
    _mine(lease).update(lease_owner="", lease_until=None, next_tick_at=timezone.now() + timedelta(seconds=wait_seconds))
