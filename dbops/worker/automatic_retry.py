"""A branch that was dropped from a shared read is rebuilt once more by itself, alone: planned anew, in the name of the person who asked.

What a person's click is held to holds here as well, and more: nothing is accepted in anybody's name (``engine.rebuilds.automatic_retry``).
"""

import logging
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import OperationalError, transaction
from django.db.models import Q
from django.utils import timezone

from dbops import lifecycle
from dbops.audit.log import SYSTEM, append
from dbops.celery import app
from dbops.engine.audit.chain import digest
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record
from dbops.engine.rebuilds.automatic_retry import unlike_confirmed
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.schedule.start_option_keys import Way
from dbops.engine.states import Approval, Level, StepState
from dbops.engine.tuning.stream_rate import MIB
from dbops.models import Rebuild
from dbops.operations.rebuilds import check_plan, plan_rebuild
from dbops.operations.start_options import audited, choose
from dbops.security.permissions import require_operator
from dbops.worker.tasks import nudge

log = logging.getLogger(__name__)

#: What may be otherwise in a moment: a source that lags, a host that was not read yet.
PASSING = frozenset({"plan.refused", "plan.no_facts", "plan.blocked"})
#: So long after the last of the read has ended it is tried.
PATIENCE = timedelta(hours=1)


@app.task
def rebuild_dropped() -> None:
    """Look at every branch that is to be rebuilt once more."""
    now, unknown = timezone.now(), list[tuple[int, Exception]]()
    for rebuild_id in lifecycle.retries_due(now):
        try:
            look_at(rebuild_id, now)
        except (SoftTimeLimitExceeded, *lifecycle.AWAY) as error:
            if not (isinstance(error, OperationalError) and lifecycle.lost_a_race(error)):
                raise
        except Exception as error:
            log.exception("rebuild %s is left to a person; the others are looked at", rebuild_id)
            unknown.append((rebuild_id, error))
    for rebuild_id, cause in unknown:  # after all others: should this not go well either, nobody waits for it
        _give_up(Rebuild.objects.get(pk=rebuild_id), f"{type(cause).__name__}: {cause}.", "bug")


def look_at(rebuild_id: int, now: datetime) -> Rebuild | None:
    """Queue the rebuild of one dropped branch, alone, or give it up, or leave it for the next look. Return what was queued.

    Of two processes that look at once, or at one that was looked at already, the second finds nothing to do.
    """
    branch = lifecycle.claim_retry(rebuild_id, now)
    if branch is None:
        return None
    first = branch.reads_with_id or branch.pk
    others = list(
        Rebuild.objects.filter(Q(pk=first) | Q(reads_with=first)).exclude(pk=branch.pk).prefetch_related("steps")
    )
    if why := _never(others):
        _give_up(branch, why)
        return None
    why, code, may_pass = _not_yet(branch, others), "", True
    if not why:
        try:
            return _queue(branch)
        except Refused as error:
            why, code, may_pass = f"{error.found.rstrip('.')}.", error.code, error.code in PASSING
        except OperationalError as error:
            if not lifecycle.lost_a_race(error):
                raise
            return None
    if not may_pass or _is_late(branch, others, now):
        _give_up(branch, why, code)
    elif code:
        begin = f"{branch.target.name} is not rebuilt again yet: "
        lifecycle.tell_retry(branch, begin + why, once_for=begin)
    return None


def _never(others: Sequence[Rebuild]) -> str:
    """Say why it is not rebuilt by itself, whatever comes."""
    if not settings.FAN_OUT_RETRY:
        return "DBOPS_FAN_OUT_RETRY is off."
    if all(one.is_final for one in others) and not _has_copy(others):
        return "None of the same read has got its copy: the cause may lie with the source."
    return ""


def _not_yet(branch: Rebuild, others: Sequence[Rebuild]) -> str:
    """Say what it waits for before it can be planned."""
    if not _has_copy(others):
        return "No other one of the same read has its copy yet."
    seen, ended = branch.target.state.observed_at, branch.finished_at
    if branch.sweep_due_at or seen is None or ended is None or seen <= ended:
        return f"{branch.target.name} or its source has not answered since it ended."
    return ""


def _has_copy(others: Sequence[Rebuild]) -> bool:
    """Tell whether the read was good: then what failed is the branch's own."""
    return any(step.name == "stream" and step.state == StepState.DONE for one in others for step in one.steps.all())


def _is_late(branch: Rebuild, others: Sequence[Rebuild], now: datetime) -> bool:
    ends = [one.finished_at for one in (branch, *others) if one.finished_at]
    return all(one.is_final for one in others) and now > max(ends, default=now) + PATIENCE


def _queue(branch: Rebuild) -> Rebuild | None:
    """Plan it anew and queue it. Return what was queued, ``None`` where another process has done it.

    Raises:
        Refused: as ``operations.rebuilds.request_rebuild``; a person has taken the target in hand (``rebuild.no_follow_up``), or the new
            plan is not the confirmed one (``retry.changed``).
    """
    target, source, actor = branch.target, branch.source, branch.requested_by
    doing, name = f"Rebuilding {target.name} again by itself", actor.get_username()
    with transaction.atomic():
        if not lifecycle.end_retry(branch):
            return None
        require_operator(actor, doing)
        uid = secrets.token_hex(8)
        plan = _plan(branch, uid, doing)
        choice, begin = choose(target=target, source=source, method=branch.method, key=Way.SOON, expires_hours=None)
        needs_approval = target.cluster.needs_approval  # nobody has seen this plan
        why = branch.error["code"]
        queued = lifecycle.queue(
            plan=plan,
            uid=uid,
            request_key=f"dropped-{branch.uid}",
            actor=actor,
            by=f"{SYSTEM} itself, for {name}",
            reason=f"Once more, alone: a shared read went on without rebuild {branch.pk} ({why}). It was asked for as: {branch.reason}",
            target=target,
            source=source,
            follows=branch,
            memory=_known_of(branch),
            begin=begin,
            needs_approval=needs_approval,
        )
        if branch.stream_rate:
            text = f"Stream at most {branch.stream_rate / MIB:.1f} MiB/s, as rebuild {branch.pk}."
            lifecycle.set_rate(queued, branch.stream_rate, text)
        lifecycle.tell_retry(branch, f"Rebuild {queued.pk} rebuilds {target.name} once more, alone.")
        append(
            actor=SYSTEM,
            action="rebuild.requested",
            subject=target.name,
            reason=queued.reason,
            detail={
                "rebuild": queued.pk,
                "follows": branch.pk,
                "requested_by": name,
                "source": source.name,
                "method": branch.method,
                "why": why,
                "fingerprint": plan.fingerprint,
                "plan_sha256": digest(queued.plan),
                "old_data": plan.old_data,
                "keep_old_data": plan.keep_old_data,
                **({"approval": Approval.WAITING.value} if needs_approval else {}),
                **audited(choice, begin),
            },
        )
        nudge()
    return queued


def _known_of(branch: Rebuild) -> dict[str, str]:
    """Return what the second one begins with: where the old data is, and what the host must find in the data directory."""
    memory = branch.memory
    if not memory.get("touched"):
        return {}
    return {"half_copy": memory.get("aside_path", ""), "half_copy_tree": memory["left_tree"]}


def _plan(branch: Rebuild, uid: str, doing: str) -> Plan:
    """Return today's plan where it may be carried out without anybody having read it. Raises as ``_queue``."""
    target, before = branch.target, from_record(Plan, branch.plan)
    newer = Rebuild.objects.filter(target=target, pk__gt=branch.pk).order_by("-pk").values_list("pk", flat=True).first()
    if newer:
        raise _refused("rebuild.no_follow_up", doing, f"rebuild {newer} of this instance was asked for since")
    # what lies in the data directory once it was emptied is half a copy, or the host refuses: nobody asked to keep that
    keep = before.keep_old_data and not branch.memory.get("touched")
    plan = plan_rebuild(target=target, source=branch.source, method=branch.method, keep_old_data=keep, run_id=uid)
    check_plan(doing, plan, plan.fingerprint)
    if changes := unlike_confirmed(before, plan, branch.memory):
        raise _refused("retry.changed", doing, "; ".join(changes))
    return plan


def _give_up(branch: Rebuild, why: str, code: str = "") -> None:
    """Say in its history and in the audit log that a person has to look at it."""
    with transaction.atomic():
        if not lifecycle.end_retry(branch):
            return
        text = f"{branch.target.name} is not rebuilt again by itself: {why} Look at it, and plan its rebuild."
        lifecycle.tell_retry(branch, text, level=Level.WARNING)
        append(
            actor=SYSTEM,
            action="rebuild.refused",
            subject=branch.target.name,
            detail={
                "follows": branch.pk,
                "requested_by": branch.requested_by.get_username(),
                "source": branch.source.name,
                "code": code,
                "why": why,
            },
        )


def _refused(code: str, doing: str, found: str) -> Refused:
    return Refused(
        code,
        doing,
        found=found,
        left="Nothing was changed on any host.",
        next_step="Look at the instance, and plan a new rebuild.",
    )
