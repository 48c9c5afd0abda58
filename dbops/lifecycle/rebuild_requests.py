"""Queue a rebuild, change it while it is queued, and end it."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F

from dbops.audit.log import SYSTEM
from dbops.database import clock
from dbops.database.errors import locked
from dbops.engine.access.approval_rules import ApprovalRule
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import to_record
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import STEP_FINAL, Approval, Level, Status, StepState
from dbops.lifecycle.backup_runs import run_again
from dbops.lifecycle.events import announce_later, log_event
from dbops.lifecycle.leases import audit_move
from dbops.lifecycle.shared_reads import lock_with_followers, promote_follower
from dbops.models import BackupRun, BackupSchedule, Instance, Rebuild, RebuildStep
from dbops.models.phrases import with_phrases


@dataclass(frozen=True, slots=True)
class RequestedStart:
    """The requested start of a rebuild: not before a time, or after the end of a backup run.

    ``requeue_schedule`` is the schedule whose run was stopped for the rebuild. ``expires_at`` is the default if it is ``None``;
    ``description`` is text for the first event.
    """

    not_before: datetime | None = None
    start_after_run: BackupRun | None = None
    requeue_schedule: BackupSchedule | None = None
    expires_at: datetime | None = None
    description: str = ""


AT_ONCE = RequestedStart()


@dataclass(frozen=True, slots=True)
class RequestTerms:
    """Who must approve a rebuild, its change ticket, and the logins of the machine if a command requests it."""

    approval: ApprovalRule = ApprovalRule()
    ticket: str = ""
    logins: tuple[str, ...] = ()

    def columns(self) -> dict[str, Any]:
        """Return the columns of a rebuild."""
        return {
            "approval": Approval.WAITING if self.approval.count else "",
            "approval_count": self.approval.count or 1,
            "approvers_only": self.approval.only_approvers,
            "requested_login": " ".join(self.logins),
            "ticket": self.ticket,
        }


NO_TERMS = RequestTerms()


def queue(
    *,
    plan: Plan,
    uid: str,
    request_key: str,
    actor: User,
    reason: str,
    target: Instance,
    source: Instance,
    follows: Rebuild | None = None,
    checkpoint: dict[str, Any] | None = None,
    skips: Collection[str] = (),
    begin: RequestedStart = AT_ONCE,
    terms: RequestTerms = NO_TERMS,
) -> Rebuild:
    """Create a rebuild with its frozen plan, steps and first event, in the caller's transaction.

    Args:
        follows: the rebuild that this one retries, repeats or rolls back.
        memory: initial checkpoint from that rebuild.
        skips: names of completed steps.
        begin: the requested start.
        terms: who must approve it, and what belongs to the request.

    Raises:
        Refused: the target has an unfinished rebuild (``rebuild.busy``).
    """
    now = clock.now()
    try:
        with transaction.atomic():
            rebuild = Rebuild.objects.create(
                uid=uid,
                request_key=request_key,
                target=target,
                source=source,
                target_slot=target,
                method=plan.method,
                status=Status.QUEUED,
                reason=reason,
                requested_by=actor,
                requested_at=now,
                expires_at=_expiry(begin, now),
                not_before=begin.not_before,
                start_after_run=begin.start_after_run,
                requeue_schedule=begin.requeue_schedule,
                plan=to_record(plan),
                plan_fingerprint=plan.fingerprint,
                follows=follows,
                checkpoint=checkpoint or {},
                **terms.columns(),
            )
    except IntegrityError as error:
        raise _busy(target) from error
    _write_steps(rebuild, plan, skips)
    start = f" ({begin.description})" if begin.description else ""
    by = actor.get_username()
    log_event(rebuild, phrase("Requested by {by}: {reason}{start}", by=by, reason=reason, start=start))
    return rebuild


def _busy(target: Instance) -> Refused:
    return Refused(
        "rebuild.busy",
        phrase("Requesting a rebuild of {target}", target=target.name),
        cause=phrase("another rebuild of this instance is queued or running"),
    )


def _expiry(begin: RequestedStart, now: datetime) -> datetime:
    return begin.expires_at or now + timedelta(seconds=settings.QUEUE_EXPIRES_SECONDS)


def _write_steps(rebuild: Rebuild, plan: Plan, skips: Collection[str]) -> None:
    RebuildStep.objects.bulk_create(
        RebuildStep(
            rebuild=rebuild,
            position=position,
            name=step.name,
            title=step.title,
            state=StepState.SKIPPED if step.name in skips else StepState.PENDING,
            predicted_seconds=step.predicted_seconds,
        )
        for position, step in enumerate(plan.steps)
    )


def reprioritize(rebuild: Rebuild, priority: int, text: str) -> bool:
    """Give a queued rebuild another priority. Return whether it was still queued."""
    with transaction.atomic():
        moved = (
            locked(Rebuild, rebuild.pk)
            .filter(status=Status.QUEUED)
            .update(priority=priority, revision=F("revision") + 1)
        )
        if moved:
            log_event(rebuild, text)
    if moved:
        announce_later(rebuild.pk)
    return bool(moved)


def set_rate(rebuild: Rebuild, rate: int | None, text: str) -> bool:
    """Set the rate limit of an active rebuild, in bytes a second. Return whether its stream has not ended yet."""
    streams = RebuildStep.objects.filter(
        rebuild=rebuild, name="stream", state__in=(StepState.PENDING, StepState.RUNNING)
    )
    with transaction.atomic():
        open_rows = locked(Rebuild, rebuild.pk).filter(
            status__in=(Status.QUEUED, Status.RUNNING, Status.LOST), pending_status=""
        )
        moved = streams.exists() and open_rows.update(stream_rate=rate, revision=F("revision") + 1)
        if moved:
            log_event(rebuild, text)
    if moved:
        announce_later(rebuild.pk)
    return bool(moved)


def end_queued(
    rebuild: Rebuild, status: Status, text: str, *, by: str = SYSTEM, word: str = "", reason: str = ""
) -> bool:
    """Cancel or expire a rebuild that has not started, and record that in the audit log. Return whether it was still queued.

    Args:
        by: the person, or dbops.
        word: the audit action, if the status is not specific enough.
    """
    now = clock.now()
    with transaction.atomic():
        lock_with_followers(rebuild)
        moved = (
            locked(Rebuild, rebuild.pk)
            .filter(status=Status.QUEUED)
            .update(
                status=status,
                finished_at=now,
                target_slot=None,
                waiting_for="",
                revision=F("revision") + 1,
                **with_phrases(outcome=phrase("Nothing was changed on any host.")),
            )
        )
        if moved:
            rebuild.steps.exclude(state__in=STEP_FINAL).update(state=StepState.SKIPPED)
            log_event(rebuild, text)
            promote_follower(rebuild)
            run_again(rebuild)
            audit_move(rebuild, word or status.value, by=by, reason=reason, outcome=text)
    if moved:
        announce_later(rebuild.pk)
    return bool(moved)


def request_cancel(rebuild: Rebuild, by: str) -> bool:
    """Request the stop of a running rebuild from its driver. Return whether there was something to stop."""
    with transaction.atomic():
        at_work = locked(Rebuild, rebuild.pk).filter(status__in=(Status.RUNNING, Status.LOST), pending_status="")
        asked = at_work.filter(cancel_requested_at=None).update(
            cancel_requested_at=clock.now(),
            cancel_requested_by=by,
            next_tick_at=clock.now(),
            revision=F("revision") + 1,
        )
        if asked:
            log_event(rebuild, phrase("Cancel requested by {by}.", by=by), level=Level.WARNING)
    if asked:
        announce_later(rebuild.pk)
    return bool(asked)
