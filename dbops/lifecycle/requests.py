"""From a confirmed plan to a running rebuild: the queue, the holds, and a person's wish to end it."""

import secrets
from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.facts import to_record
from dbops.engine.plan import Plan
from dbops.engine.states import STEP_FINAL, Level, Status, StepState
from dbops.lifecycle.telling import announce_later, tell
from dbops.models import Hold, Instance, Rebuild, Step


class NotQueued(Exception):
    """Somebody else started or ended it meanwhile."""


def queue(
    *, plan: Plan, uid: str, request_key: str, actor: User, reason: str, target: Instance, source: Instance
) -> Rebuild:
    """Write a rebuild with its frozen plan, steps and first event. The caller's transaction makes it one act.

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
                expires_at=now + timedelta(seconds=settings.QUEUE_EXPIRES_SECONDS),
                plan=to_record(plan),
                plan_fingerprint=plan.fingerprint,
            )
    except IntegrityError as error:
        raise Refused(
            "rebuild.busy",
            f"Requesting a rebuild of {target.name}",
            found="another rebuild of this instance is queued or running",
            left="Nothing was changed.",
            next_step="Watch that one, or cancel it first.",
        ) from error
    Step.objects.bulk_create(
        Step(
            rebuild=rebuild,
            position=position,
            name=step.name,
            title=step.title,
            state=StepState.PENDING,
            predicted_seconds=step.predicted_seconds,
        )
        for position, step in enumerate(plan.steps)
    )
    tell(rebuild, f"Requested by {actor.get_username()}: {reason}")
    return rebuild


def start(rebuild: Rebuild) -> str:
    """Take the holds and make a queued rebuild run. Return ``""``, or in words what it waits for."""
    now = timezone.now()
    claims = [(rebuild.source, "source"), (rebuild.target, "target")]
    try:
        with transaction.atomic():
            Hold.objects.bulk_create(
                Hold(instance=instance, rebuild=rebuild, purpose=purpose, taken_at=now) for instance, purpose in claims
            )
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
            tell(rebuild, "Started.")
    except IntegrityError:
        return _wait(rebuild, claims)
    except NotQueued:
        return "it is no longer queued"
    announce_later(rebuild.pk)
    return ""


def _wait(rebuild: Rebuild, claims: Iterable[tuple[Instance, str]]) -> str:
    held = Hold.objects.filter(instance__in=[instance for instance, _ in claims]).select_related("instance", "rebuild")
    reason = "; ".join(
        f"{hold.instance.name} is held by rebuild {hold.rebuild_id} as its {hold.purpose}" for hold in held
    )
    reason = reason or "the holds were taken a moment ago"
    if reason != rebuild.waiting_for:
        queued = Rebuild.objects.filter(pk=rebuild.pk, status=Status.QUEUED)
        if queued.update(waiting_for=reason[:500], revision=F("revision") + 1):
            tell(rebuild, f"Waiting: {reason}.")
            announce_later(rebuild.pk)
    return reason


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
