"""Plan, request and cancel a rebuild."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import OperationalError, transaction
from django.db.models import Max, Q

from dbops.audit.log import append, current_origin
from dbops.database.errors import lost_a_race
from dbops.engine.access.approval_rules import ApprovalRule
from dbops.engine.audit.chain import digest
from dbops.engine.errors import Refused
from dbops.engine.flavors.tidb import not_offered
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.phrases import phrase
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.planning.planner import build_plan
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.schedule.start_option_keys import StartMode
from dbops.engine.states import REPLICAS, Approval, Role, RunStatus, Status
from dbops.lifecycle import cleanups, rebuild_requests, shared_reads
from dbops.lifecycle.rebuild_requests import RequestTerms
from dbops.loaders.plan_inputs import plan_inputs_of
from dbops.messaging.wakeups import nudge
from dbops.models import BackupRun, Instance, Rebuild
from dbops.operations.audit import NO_REASON, refusals_recorded, says_why
from dbops.operations.backups import stop_run
from dbops.operations.confirmation import check_confirmation, check_plan, check_ticket
from dbops.operations.follow_up_options import initial_checkpoint
from dbops.operations.rate_limit import set_stream_rate
from dbops.operations.shared_reads import may_join, refused
from dbops.operations.start_options import audited, choose
from dbops.operations.strict_places import approval_need
from dbops.security.permissions import require_operator

#: Priorities that a person can choose. Moving to the front goes above them if other rebuilds are there already.
PRIORITIES = range(-9, 10)
#: Attempts to write a request when the database chooses another transaction (a deadlock).
CHANCES = 3


def candidate_sources(target: Instance) -> list[Instance]:
    """Return the instances of the target's cluster that a rebuild can read, best first: backup instances, then replicas."""
    others = Instance.objects.filter(cluster=target.cluster_id, role__in=REPLICAS).exclude(pk=target.pk)
    return sorted(others.select_related("host", "state"), key=lambda item: (item.role != Role.BACKUP, item.name))


def plan_rebuild(
    *,
    target: Instance,
    source: Instance | None = None,
    method: str = DEFAULT_METHOD,
    keep_old_data: bool = False,
    full_certificate: bool = False,
    run_id: str = "RUN",
) -> Plan:
    """Return the plan of a rebuild now. Writes nothing, contacts no host.

    Raises:
        KeyError: there is no such method.
        Refused: there is no source (``plan.no_source``), or facts are missing (``plan.no_facts``).
    """
    inputs = plan_inputs_for(
        target=target,
        source=source,
        keep_old_data=keep_old_data,
        full_certificate=full_certificate,
        run_id=run_id,
    )
    return build_plan(inputs, METHODS[method])


def plan_inputs_for(
    *,
    target: Instance,
    source: Instance | None = None,
    keep_old_data: bool = False,
    full_certificate: bool = False,
    run_id: str = "RUN",
) -> PlanInputs:
    """Return the plan inputs of a rebuild, for any method.

    Raises:
        Refused: there is no source (``plan.no_source``), or the instance is a TiDB node (``flavor.tidb``).
    """
    if Role.TIDB in (target.role, source.role if source else ""):
        raise not_offered(phrase("Planning a rebuild of {target}", target=target.name))
    chosen = source or next(iter(candidate_sources(target)), None)
    if chosen is None:
        raise Refused(
            "plan.no_source",
            phrase("Planning a rebuild of {target}", target=target.name),
            cause=phrase("cluster {cluster} has no instance to read besides its primary", cluster=target.cluster.name),
        )
    return plan_inputs_of(target, chosen, keep_old_data=keep_old_data, full_certificate=full_certificate, run_id=run_id)


def request_rebuild(
    *,
    actor: User,
    target: Instance,
    source: Instance,
    typed_name: str,
    reason: str,
    fingerprint: str,
    request_key: str,
    method: str = DEFAULT_METHOD,
    keep_old_data: bool = False,
    full_certificate: bool = False,
    start: str = StartMode.SOON,
    expires_hours: int | None = None,
    joins: Rebuild | None = None,
    repeats: Rebuild | None = None,
    rate: int | None = None,
    ticket: str = "",
) -> Rebuild:
    """Confirm a plan: plan again, compare, and write rebuild, first event and audit entry in one transaction.

    Args:
        actor: must be an operator.
        typed_name: the person's input, which must be the target's name.
        reason: for the audit log.
        fingerprint: of the plan that the person saw.
        request_key: unique to the form: the second click of the same form returns the same rebuild.
        method: a key of ``engine.methods.METHODS``.
        full_certificate: compare all rows of the copy, also after success.
        start: the key of the chosen start option (``engine.schedule.start_options``).
        expires_hours: hours until a queued rebuild expires; ``None`` for the default.
        joins: the leader whose read it shares, and with which it starts.
        repeats: the unsuccessful rebuild of the same target that is repeated.
        rate: rate limit in bytes a second; ``None`` for no limit.
        ticket: number of the change ticket, which the target's cluster can require.

    Raises:
        Refused: ``access.denied``, ``rebuild.name``, ``rebuild.reason``, ``rebuild.ticket``, ``plan.refused``, ``plan.stale``,
            ``rebuild.busy``, ``join.not_possible``, ``rebuild.no_follow_up``, ``rebuild.rate``, or as
            ``plan_rebuild`` and ``starts.choose``.
    """
    operation = phrase("Requesting a rebuild of {target}", target=target.name)
    with refusals_recorded(
        actor=actor.get_username(),
        action="rebuild.refused",
        subject=target.name,
        reason=reason.strip(),
        source=source.name,
        fingerprint=fingerprint,
    ):
        for cluster in {target.cluster_id, source.cluster_id}:
            require_operator(actor, operation, cluster)
        if existing := Rebuild.objects.filter(request_key=request_key).first():
            return existing
        check_confirmation(operation, target, typed_name, reason)
        check_ticket(operation, target, ticket)
        wish = _RebuildRequest(
            target, source, method, keep_old_data, full_certificate, start, expires_hours, joins, repeats, rate, ticket
        )
        return write_once(request_key, lambda: _write(actor, wish, reason.strip(), fingerprint, request_key))


def write_once(request_key: str, write: Callable[[], Rebuild]) -> Rebuild:
    """Write a rebuild, or return the one that another click of the same form has written. Raises as ``write``."""
    for chances in reversed(range(CHANCES)):
        try:
            return write()
        except Refused:
            # Two simultaneous clicks: the other one may have written it since the check.
            if existing := Rebuild.objects.filter(request_key=request_key).first():
                return existing
            raise
        except OperationalError as error:
            if not (chances and lost_a_race(error)):
                raise
    raise AssertionError("the last chance returns or raises")


@dataclass(frozen=True, slots=True)
class _RebuildRequest:
    """Target, source, method and start of a requested rebuild."""

    target: Instance
    source: Instance
    method: str
    keep_old_data: bool
    full_certificate: bool
    start: str
    expires_hours: int | None
    joins: Rebuild | None
    repeats: Rebuild | None
    rate: int | None
    ticket: str

    def plan(self, run_id: str = "RUN") -> Plan:
        return plan_rebuild(
            target=self.target,
            source=self.source,
            method=self.method,
            keep_old_data=self.keep_old_data,
            full_certificate=self.full_certificate,
            run_id=run_id,
        )


def _write(actor: User, wish: _RebuildRequest, reason: str, fingerprint: str, request_key: str) -> Rebuild:
    target, source = wish.target, wish.source
    operation = phrase("Requesting a rebuild of {target}", target=target.name)
    with transaction.atomic():
        check_plan(operation, wish.plan(), fingerprint)
        choice, begin = choose(
            target=target, source=source, method=wish.method, key=wish.start, expires_hours=wish.expires_hours
        )
        need = approval_need(target)
        uid = secrets.token_hex(8)
        frozen = wish.plan(uid)
        known = initial_checkpoint(wish.repeats, frozen, operation) if wish.repeats else {}
        rebuild = rebuild_requests.queue(
            plan=frozen,
            uid=uid,
            request_key=request_key,
            actor=actor,
            reason=reason,
            target=target,
            source=source,
            follows=wish.repeats,
            checkpoint=known,
            begin=begin,
            terms=RequestTerms(need.rule if need else ApprovalRule(), wish.ticket, current_origin().logins),
        )
        shared: dict[str, Any] = {"leader": wish.joins.pk} if wish.joins else {}
        if wish.repeats is not None:
            shared["follows"] = wish.repeats.pk
        if wish.joins is not None:
            may_join(frozen, wish.joins, operation)
            if not shared_reads.join(rebuild, wish.joins, actor.get_username()):
                found = phrase("rebuild {joins} already reads or has finished reading", joins=wish.joins.pk)
                raise refused(operation, found)
        if choice.stops_run:
            stop_run(BackupRun.objects.get(pk=choice.stops_run), actor, f"for rebuild {rebuild.pk}: {reason}")
        append(
            actor=actor.get_username(),
            action="rebuild.requested",
            subject=target.name,
            reason=reason,
            detail={
                "rebuild": rebuild.pk,
                "source": source.name,
                "method": wish.method,
                "backup_run": frozen.archive.run if frozen.archive else None,
                "fingerprint": fingerprint,
                "plan_sha256": digest(rebuild.plan),
                "old_data": frozen.old_data,
                "keep_old_data": frozen.keep_old_data,
                "full_certificate": frozen.full_certificate,
                **shared,
                **({"ticket": wish.ticket} if wish.ticket else {}),
                **({"approval": Approval.WAITING.value, "approval_of": need.cluster} if need else {}),
                **audited(choice, begin),
            },
        )
        if wish.rate is not None:
            set_stream_rate(actor=actor, rebuild=rebuild, rate=wish.rate)
        nudge()
    return rebuild


def cancel_rebuild(*, actor: User, rebuild: Rebuild) -> None:
    """Request the end of a rebuild: at once while queued, by its driver within seconds while running.

    Raises:
        Refused: ``access.denied``, or it has ended (``rebuild.ended``).
    """
    operation = phrase("Cancelling rebuild {rebuild}", rebuild=rebuild.pk)
    require_operator(actor, operation, rebuild.target.cluster_id)
    with transaction.atomic():
        name = actor.get_username()
        text = phrase("Cancelled by {name} before it started.", name=name)
        asked = rebuild_requests.end_queued(rebuild, Status.CANCELLED, text, by=name)
        if not asked and rebuild_requests.request_cancel(rebuild, name):
            asked = True
            append(
                actor=name,
                action="rebuild.cancel_requested",
                subject=rebuild.target.name,
                detail={"rebuild": rebuild.pk},
            )
        if asked:
            nudge()
    rebuild.refresh_from_db()
    if not asked and rebuild.is_final:
        raise Refused.unchanged("rebuild.ended", operation, phrase("it has ended: {status}", status=rebuild.status))


def set_priority(*, actor: User, rebuild: Rebuild, priority: int) -> None:
    """Change the queue position of a rebuild: a higher priority goes first, then age.

    Raises:
        Refused: ``access.denied``, the number is out of bounds (``rebuild.priority``), or it is not queued
            (``rebuild.not_queued``).
    """
    operation = phrase("Changing the priority of rebuild {rebuild}", rebuild=rebuild.pk)
    require_operator(actor, operation, rebuild.target.cluster_id)
    if priority not in PRIORITIES:
        found = phrase("priority {priority} is out of range", priority=priority)
        raise Refused.unchanged(
            "rebuild.priority",
            operation,
            found,
            next_step=phrase(
                "Enter {priorities} to {priorities_2}.", priorities=PRIORITIES[0], priorities_2=PRIORITIES[-1]
            ),
        )
    before, by = rebuild.priority, actor.get_username()
    text = phrase("Priority changed from {before} to {priority} by {by}.", before=before, priority=priority, by=by)
    _move(actor, rebuild, priority, operation, text)


def move_first(*, actor: User, rebuild: Rebuild) -> None:
    """Move a queued rebuild before all others that wait for its source or target.

    Raises:
        Refused: ``access.denied``, or it is not queued (``rebuild.not_queued``).
    """
    operation = phrase("Moving rebuild {rebuild} to the front of the queue", rebuild=rebuild.pk)
    require_operator(actor, operation, rebuild.target.cluster_id)
    with transaction.atomic():
        instances = (rebuild.source_id, rebuild.target_id)
        others = Rebuild.objects.filter(status=Status.QUEUED).exclude(pk=rebuild.pk)
        in_line = others.filter(Q(source__in=instances) | Q(target__in=instances))
        before = [in_line.aggregate(highest=Max("priority"))["highest"]]
        if BackupRun.objects.filter(status=RunStatus.QUEUED, instance__in=instances).exists():
            before.append(0)  # the priority of every backup run
        priority = max([rebuild.priority, *(found + 1 for found in before if found is not None)])
        text = phrase(
            "Moved to the front of the queue by {by} (priority {priority}, was {before}).",
            by=actor.get_username(),
            priority=priority,
            before=rebuild.priority,
        )
        _move(actor, rebuild, priority, operation, text)


def _move(actor: User, rebuild: Rebuild, priority: int, operation: str, text: str) -> None:
    name, before = actor.get_username(), rebuild.priority
    with transaction.atomic():
        moved = rebuild_requests.reprioritize(rebuild, priority, text)
        if moved:
            append(
                actor=name,
                action="rebuild.priority_changed",
                subject=rebuild.target.name,
                detail={"rebuild": rebuild.pk, "priority": priority, "before": before},
            )
            nudge()
    rebuild.refresh_from_db()
    if not moved:
        found = phrase("the rebuild is {status}", status=rebuild.status)
        raise Refused.unchanged("rebuild.not_queued", operation, found)


def force_fail_rebuild(*, actor: User, rebuild: Rebuild, reason: str) -> None:
    """Mark a lost rebuild as failed without its hosts. Processes there are ended when the hosts answer.

    Raises:
        Refused: ``access.denied``, no reason (``rebuild.reason``), or it is not lost (``rebuild.not_lost``).
    """
    operation = phrase("Force-failing rebuild {rebuild}", rebuild=rebuild.pk)
    require_operator(actor, operation, rebuild.target.cluster_id)
    if not says_why(reason):
        raise Refused.unchanged("rebuild.reason", operation, NO_REASON)
    name = actor.get_username()
    with transaction.atomic():
        ended = cleanups.force_fail(rebuild, name)
        if ended:
            append(
                actor=name,
                action="rebuild.force_failed",
                subject=rebuild.target.name,
                reason=reason.strip(),
                detail={"rebuild": rebuild.pk},
            )
    if not ended:
        rebuild.refresh_from_db()
        found = phrase("the rebuild is {status}, not lost", status=rebuild.status)
        raise Refused.unchanged("rebuild.not_lost", operation, found)
