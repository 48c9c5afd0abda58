"""From a confirmed plan to a running rebuild: the queue, the holds, and a person's wish to end it."""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, OperationalError, transaction
from django.db.models import F
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.facts import to_record
from dbops.engine.methods import method_named
from dbops.engine.plan import Plan
from dbops.engine.states import STEP_FINAL, Level, Status, StepState
from dbops.lifecycle.database import lost_a_race
from dbops.lifecycle.telling import announce_later, tell
from dbops.models import BackupRun, BackupSchedule, Hold, Instance, Rebuild, Step

REASON_CHARACTERS = Rebuild._meta.get_field("waiting_for").max_length


class NotQueued(Exception):
    """Somebody else started or ended it meanwhile."""


@dataclass(frozen=True, slots=True)
class Start:
    """When a person wants a rebuild to start: not before a moment, or when a backup run has ended.

    ``runs_again`` is the schedule whose run was stopped for it. ``expires_at`` is the settings' where it is ``None``;
    ``words`` stand in its first event.
    """

    not_before: datetime | None = None
    after_run: BackupRun | None = None
    runs_again: BackupSchedule | None = None
    expires_at: datetime | None = None
    words: str = ""


AT_ONCE = Start()


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
    memory: dict[str, Any] | None = None,
    skips: Collection[str] = (),
    begin: Start = AT_ONCE,
) -> Rebuild:
    """Write a rebuild with its frozen plan, steps and first event. The caller's transaction makes it one act.

    Args:
        follows: the rebuild that this one goes on with or goes back from.
        memory: what it knows from there.
        skips: names of the steps that are done already.
        begin: when a person wants it to start.

    Raises:
        Refused: the target has an unfinished rebuild (``rebuild.busy``).
    """
    now = timezone.now()
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
                expires_at=begin.expires_at or now + timedelta(seconds=settings.QUEUE_EXPIRES_SECONDS),
                not_before=begin.not_before,
                after_run=begin.after_run,
                runs_again=begin.runs_again,
                plan=to_record(plan),
                plan_fingerprint=plan.fingerprint,
                follows=follows,
                memory=memory or {},
            )
    except IntegrityError as error:
        raise Refused(
            "rebuild.busy",
            f"Requesting a rebuild of {target.name}",
            found="another rebuild of this instance is queued or running",
            left="Nothing was changed.",
            next_step="Watch that one, or cancel it first.",
        ) from error
    _write_steps(rebuild, plan, skips)
    tell(rebuild, f"Requested by {actor.get_username()}: {reason}{f' ({begin.words})' if begin.words else ''}")
    return rebuild


def _write_steps(rebuild: Rebuild, plan: Plan, skips: Collection[str]) -> None:
    Step.objects.bulk_create(
        Step(
            rebuild=rebuild,
            position=position,
            name=step.name,
            title=step.title,
            state=StepState.SKIPPED if step.name in skips else StepState.PENDING,
            predicted_seconds=step.predicted_seconds,
        )
        for position, step in enumerate(plan.steps)
    )


def held() -> dict[int, str]:
    """Return in words who holds an instance, by the instance's primary key."""
    holds = Hold.objects.select_related("instance").order_by("pk")
    return {hold.instance_id: _in_words(hold) for hold in holds}


def _in_words(hold: Hold) -> str:
    if hold.backup_run_id:
        return f"{hold.instance.name} is read by backup run {hold.backup_run_id}"
    return f"{hold.instance.name} is held by rebuild {hold.rebuild_id} as its {hold.purpose}"


def claims_of(rebuild: Rebuild) -> list[tuple[Instance, str]]:
    """Return the instances that a rebuild holds while it runs, each with its purpose."""
    claims = [(rebuild.source, "source")] if method_named(rebuild.method).reads_source else []
    return [*claims, (rebuild.target, "target")]


def start(rebuild: Rebuild) -> str:
    """Take the holds and make a queued rebuild run. Return ``""``, or in words what it waits for.

    The rebuild's row comes first, so that of two that start one rebuild the second waits for the first; then the holds,
    always in the same order, so that two rebuilds that want the same two instances do not wait for each other.
    """
    now = timezone.now()
    claims = sorted(claims_of(rebuild), key=lambda claim: claim[0].pk)
    try:
        with transaction.atomic():
            moved = Rebuild.objects.filter(pk=rebuild.pk, status=Status.QUEUED, cancel_requested_at=None).update(
                status=Status.RUNNING,
                run_token=secrets.token_hex(16),
                started_at=now,
                next_tick_at=now,
                waiting_for="",
                revision=F("revision") + 1,
            )
            if not moved:
                raise NotQueued
            Hold.objects.bulk_create(
                Hold(instance=instance, rebuild=rebuild, purpose=purpose, taken_at=now) for instance, purpose in claims
            )
            tell(rebuild, "Started.")
    except IntegrityError:
        return _wait_for_holds(rebuild)
    except OperationalError as error:
        if not lost_a_race(error):
            raise
        return _wait_for_holds(rebuild)
    except NotQueued:
        return "it is no longer queued"
    announce_later(rebuild.pk)
    return ""


def _wait_for_holds(rebuild: Rebuild) -> str:
    holds = held()
    reasons = [holds[instance.pk] for instance, _ in claims_of(rebuild) if instance.pk in holds]
    return wait(rebuild, "; ".join(reasons) or "the holds were taken a moment ago")


def wait(rebuild: Rebuild, reason: str) -> str:
    """Note what a queued rebuild waits for, and tell it once for each reason. Return the reason.

    It replaces only the reason that was read with the row: of several who look at once, an older view changes nothing.
    """
    reason = reason[:REASON_CHARACTERS]
    if reason == rebuild.waiting_for:
        return reason
    with transaction.atomic():
        queued = Rebuild.objects.filter(pk=rebuild.pk, status=Status.QUEUED, waiting_for=rebuild.waiting_for)
        if queued.update(waiting_for=reason, revision=F("revision") + 1):
            tell(rebuild, f"Waiting: {reason}.")
            announce_later(rebuild.pk)
    return reason


def reprioritize(rebuild: Rebuild, priority: int, text: str) -> bool:
    """Give a queued rebuild another priority. Return whether it was still queued."""
    with transaction.atomic():
        moved = Rebuild.objects.filter(pk=rebuild.pk, status=Status.QUEUED).update(
            priority=priority, revision=F("revision") + 1
        )
        if moved:
            tell(rebuild, text)
    if moved:
        announce_later(rebuild.pk)
    return bool(moved)


def end_queued(rebuild: Rebuild, status: Status, text: str) -> bool:
    """Cancel or expire a rebuild that has not started. Return whether it was still queued."""
    now = timezone.now()
    with transaction.atomic():
        moved = Rebuild.objects.filter(pk=rebuild.pk, status=Status.QUEUED).update(
            status=status,
            finished_at=now,
            target_slot=None,
            waiting_for="",
            outcome="Nothing was changed on any host.",
            revision=F("revision") + 1,
        )
        if moved:
            rebuild.steps.exclude(state__in=STEP_FINAL).update(state=StepState.SKIPPED)
            tell(rebuild, text)
    if moved:
        announce_later(rebuild.pk)
    return bool(moved)


def request_cancel(rebuild: Rebuild, by: str) -> bool:
    """Ask the driver of a running rebuild to stop. Return whether there was something to ask."""
    with transaction.atomic():
        asked = Rebuild.objects.filter(
            pk=rebuild.pk, status__in=(Status.RUNNING, Status.LOST), cancel_requested_at=None, ending=""
        ).update(
            cancel_requested_at=timezone.now(),
            cancel_requested_by=by,
            next_tick_at=timezone.now(),
            revision=F("revision") + 1,
        )
        if asked:
            tell(rebuild, f"Cancel requested by {by}.", level=Level.WARNING)
    if asked:
        announce_later(rebuild.pk)
    return bool(asked)
