"""Plan, request and stop load tests."""

import secrets
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from dbops.audit.log import append
from dbops.engine.audit.chain import digest
from dbops.engine.errors import Refused
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.planned_rounds import rounds_of
from dbops.engine.load_tests.request import LoadTestRequest, problems
from dbops.engine.load_tests.tidb_facts import tidb_problems
from dbops.engine.load_tests.tidb_plan import plan_load
from dbops.engine.phrases import joined, phrase
from dbops.lifecycle import load_tests
from dbops.loaders.load_tests import facts_of, limits
from dbops.messaging.wakeups import nudge
from dbops.models import BackupRun, Host, Instance, LoadTest
from dbops.operations.audit import NO_REASON, refusals_recorded, says_why
from dbops.operations.host_access import require_on_hosts
from dbops.security.permissions import require_operator


def plan_load_test(request: LoadTestRequest) -> LoadTestPlan:
    """Return the plan of a load test now, with its refusals as findings. Writes nothing, contacts no host.

    Raises:
        Refused: the request is not possible (``load_test.request``), source or host is not in the inventory (``load_test.not_found``),
            the type of the source's server is unknown (``load_test.source``), or a TiDB cluster cannot have it (``load_test.tidb``).
    """
    return _plan(request, *_places(request))


def request_load_test(
    *,
    actor: User,
    request: LoadTestRequest,
    typed_name: str,
    reason: str,
    fingerprint: str,
    request_key: str,
) -> LoadTest:
    """Confirm a plan: plan again, compare, and write load test, first event and audit entry in one transaction.

    Args:
        actor: must be an operator.
        request: what the plan was made from.
        typed_name: the person's input, which must be the host's name, or that of a TiDB cluster.
        reason: for the audit log.
        fingerprint: of the plan that the person saw.
        request_key: unique to the form: the second click of the same form returns the same load test.

    Raises:
        Refused: ``access.denied``, ``load_test.name``, ``load_test.reason``, ``load_test.refused`` (the plan has refusals),
            ``load_test.stale`` (the plan changed), or as ``plan_load_test``.
    """
    operation = phrase("Requesting a load test on {host}", host=request.host)
    with refusals_recorded(
        actor=actor.get_username(),
        action="load_test.refused",
        subject=request.host[:63],
        reason=reason.strip(),
        source=request.source,
        fingerprint=fingerprint,
    ):
        _require(actor, operation, request)
        if existing := LoadTest.objects.filter(request_key=request_key).first():
            return existing
        _must_be_typed(request, typed_name, operation)
        if not says_why(reason):
            raise Refused.unchanged("load_test.reason", operation, NO_REASON)
        try:
            return _write(actor, request, reason.strip(), fingerprint, request_key)
        except IntegrityError:
            # Two simultaneous clicks: the other one has written it.
            return LoadTest.objects.get(request_key=request_key)


def cancel_load_test(*, actor: User, load_test: LoadTest, reason: str) -> None:
    """Stop a load test: at once while queued or lost, through its driver within seconds while running. Its files are removed.

    Raises:
        Refused: ``access.denied``, no reason (``load_test.reason``), or it has ended or is stopping (``load_test.ended``).
    """
    operation = phrase("Stopping load test {load_test}", load_test=load_test.pk)
    require_operator(actor, operation, load_test.source.cluster_id)
    if not says_why(reason):
        raise Refused.unchanged("load_test.reason", operation, NO_REASON)
    name = actor.get_username()
    with transaction.atomic():
        asked = load_tests.cancel(load_test, name)
        if asked:
            append(
                actor=name,
                action="load_test.stop_requested",
                subject=load_test.host.name,
                instance=load_test.source.name,
                reason=reason.strip(),
                detail={"load_test": load_test.pk, "source": load_test.source.name},
            )
            nudge()
    if not asked:
        raise Refused.unchanged("load_test.ended", operation, phrase("the load test has ended or is stopping"))


def _require(actor: User, operation: str, request: LoadTestRequest) -> None:
    """Refuse unless the actor may operate the source's cluster and use the hosts."""
    source = _source(request)
    require_operator(actor, operation, source.cluster_id if source else None)
    names = {request.host, request.generator_host} if request.is_tunnelled else {request.host}
    require_on_hosts(actor, operation, Host.objects.filter(name__in=names))


def _source(request: LoadTestRequest) -> Instance | None:
    return Instance.objects.select_related("host", "cluster", "state").filter(name=request.source).first()


def _must_be_typed(request: LoadTestRequest, typed_name: str, operation: str) -> None:
    """Refuse unless a person typed the name of what the load could harm: the host, or the TiDB cluster itself."""
    source = _source(request)
    is_cluster = source is not None and source.role == Instance.Roles.TIDB
    name, what = (source.cluster.name, phrase("cluster")) if source and is_cluster else (request.host, phrase("host"))
    if typed_name != name:
        found = phrase(
            "the entered name is {typed_name}, the {what} is {name}",
            typed_name=f"{typed_name!r}",
            what=what,
            name=f"{name!r}",
        )
        raise Refused.unchanged(
            "load_test.name", operation, found, next_step=phrase("Type the name of the {what}.", what=what)
        )


def _places(request: LoadTestRequest) -> tuple[Instance, Host, Host | None]:
    """Return source, host, and the load generator's host if that is another one."""
    operation = phrase("Planning a load test on {host}", host=request.host)
    if found := problems(request):
        raise Refused.unchanged("load_test.request", operation, joined(found, "; "))
    source = _source(request)
    host = Host.objects.filter(name=request.host).first()
    if source is None or host is None:
        missing = (
            phrase("instance {source}", source=repr(request.source))
            if source is None
            else phrase("host {host}", host=repr(request.host))
        )
        raise Refused.unchanged(
            "load_test.not_found", operation, phrase("{missing} is not in the inventory", missing=missing)
        )
    if source.role == Instance.Roles.TIDB and (found := tidb_problems(request)):
        raise Refused.unchanged("load_test.tidb", operation, joined(found, "; "))
    there = Host.objects.filter(name=request.generator_host).first() if request.is_tunnelled else None
    if request.is_tunnelled and there is None:
        raise Refused.unchanged(
            "load_test.not_found",
            operation,
            phrase("host {generator_host} is not in the inventory", generator_host=f"{request.generator_host!r}"),
        )
    return source, host, there


def _plan(request: LoadTestRequest, source: Instance, host: Host, there: Host | None) -> LoadTestPlan:
    return plan_load(request, facts_of(request, source, host, there), rounds_of(request), limits())


def _write(actor: User, request: LoadTestRequest, reason: str, fingerprint: str, request_key: str) -> LoadTest:
    source, host, there = _places(request)
    with transaction.atomic():
        run = BackupRun.objects.select_for_update().filter(pk=request.run).first() if request.run else None
        plan = _plan(request, source, host, there)
        _check(plan, fingerprint)
        load_test = load_tests.queue(
            uid=secrets.token_hex(8),
            request=request,
            plan=plan,
            source=source,
            host=host,
            generator_host=there,
            run=run,
            by=actor.get_username(),
            reason=reason,
            request_key=request_key,
        )
        append(
            actor=actor.get_username(),
            action="load_test.requested",
            subject=host.name,
            instance=source.name,
            reason=reason,
            detail=_audited(load_test, request, plan),
        )
        nudge()
    return load_test


def _check(plan: LoadTestPlan, fingerprint: str) -> None:
    operation = phrase("Requesting a load test on {host}", host=plan.host)
    if plan.refusals:
        refused = Refused.unchanged("load_test.refused", operation, joined(one.text for one in plan.refusals))
        refused.audit_detail = {"findings": [one.code for one in plan.refusals]}
        raise refused
    if plan.fingerprint != fingerprint:
        stale = Refused.unchanged("load_test.stale", operation, phrase("the plan changed after it was shown"))
        stale.audit_detail = {"fingerprint_now": plan.fingerprint}
        raise stale


def _audited(load_test: LoadTest, request: LoadTestRequest, plan: LoadTestPlan) -> dict[str, Any]:
    return {
        "load_test": load_test.pk,
        "source": request.source,
        "generator_host": plan.generator_host,
        "cluster": plan.tidb.cluster if plan.tidb else None,
        "backup_run": request.run or None,
        "profile": request.workload.profile.value,
        "rounds": len(plan.rounds),
        "pool_bytes": plan.pool_bytes,
        "fingerprint": plan.fingerprint,
        "plan_sha256": digest(load_test.plan),
        "request_sha256": digest(load_test.request),
        "warnings": sorted({one.code for one in plan.warnings}),
    }
