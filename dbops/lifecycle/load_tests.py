"""Load tests: queue, start, driver's writes and end."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeAlias

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet

from dbops.database import clock
from dbops.database.errors import locked
from dbops.engine.facts.instance import to_record
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.load_tests.round_result import RoundResult
from dbops.engine.phrases import phrase
from dbops.engine.states import RUN_FINAL, Level, RunStatus
from dbops.lifecycle import leases
from dbops.lifecycle.events import log_event
from dbops.lifecycle.leases import Lease, LeaseLost, Update, audit_move
from dbops.models import BackupRun, Host, Instance, LoadTest, LoadTestRound, RestoreTest

LoadTestLease: TypeAlias = Lease[LoadTest]
#: The columns of an ended load test: no driver; its host is free for the next one.
_OVER: dict[str, Any] = {**leases.NO_LEASE, "host_slot": None, "waiting_for": "", "unreachable_since": None}
_ENDED = {
    RunStatus.SUCCEEDED: phrase("succeeded"),
    RunStatus.FAILED: phrase("failed"),
    RunStatus.CANCELLED: phrase("was stopped"),
}


def queue(
    *,
    uid: str,
    request: LoadTestRequest,
    plan: LoadTestPlan,
    source: Instance,
    host: Host,
    generator_host: Host | None,
    run: BackupRun | None,
    by: str,
    reason: str,
    request_key: str,
) -> LoadTest:
    """Queue a load test with its frozen request and plan, in the caller's transaction.

    Raises ``IntegrityError`` if another click of the same form has queued it.
    """
    with transaction.atomic():
        load_test = LoadTest.objects.create(
            uid=uid,
            cluster=source.cluster,
            source=source,
            host=host,
            generator_host=generator_host,
            run=run,
            status=RunStatus.QUEUED,
            requested_by=by,
            requested_at=clock.now(),
            request_key=request_key,
            reason=reason,
            request=to_record(request),
            plan=to_record(plan),
            fingerprint=plan.fingerprint,
        )
    log_event(load_test, phrase("Requested by {by}: {reason}", by=by, reason=reason))
    return load_test


def start(load_test: LoadTest) -> bool:
    """Start a queued load test if its hosts have none. Return whether it started: their locks and the unique slot decide."""
    now = clock.now()
    try:
        with transaction.atomic():
            # locked, as by the start of a restore test: only one of both begins
            hosts = [one for one in (load_test.host_id, load_test.generator_host_id) if one]
            list(Host.objects.select_for_update().filter(pk__in=hosts).order_by("pk"))
            if RestoreTest.objects.filter(host_slot__in=hosts).exists() or running_on(hosts).exists():
                return False
            begun = (
                locked(LoadTest, load_test.pk)
                .filter(status=RunStatus.QUEUED)
                .update(
                    status=RunStatus.RUNNING,
                    started_at=now,
                    next_tick_at=now,
                    host_slot=load_test.host_id,
                    waiting_for="",
                    revision=F("revision") + 1,
                )
            )
            if begun:
                there = load_test.generator_host
                generator = phrase(", its load generator on {host}", host=there.name) if there else ""
                log_event(
                    load_test,
                    phrase(
                        "Load test {test} started on {host}{generator}.",
                        test=load_test.pk,
                        host=load_test.host.name,
                        generator=generator,
                    ),
                )
                audit_move(load_test, "started")
    except IntegrityError:
        return False
    return bool(begun)


def running_on(hosts: Iterable[int]) -> QuerySet[LoadTest]:
    """Return the load tests whose scratch server or load generator may use one of these hosts."""
    wanted = list(hosts)
    rows = LoadTest.objects.exclude(host_slot=None)
    return rows.filter(Q(host_slot__in=wanted) | Q(generator_host__in=wanted)).order_by("pk")


def delay(load_test: LoadTest, why: str) -> None:
    """Record what a queued load test waits for."""
    rows = LoadTest.objects.filter(pk=load_test.pk, status=RunStatus.QUEUED).exclude(waiting_for=why)
    rows.update(waiting_for=why, revision=F("revision") + 1)


def due(now: datetime) -> list[int]:
    """Return the ids of load tests with due work and without a living driver."""
    return leases.due(LoadTest, now)


def take_lease(load_test_id: int) -> LoadTestLease | None:
    """Become the driver of a load test; ``None`` if it has a living driver or no due work."""
    return leases.take(LoadTest, load_test_id, "run", "source__cluster", "source__host", "host", "generator_host")


def keep_round(lease: LoadTestLease, result: RoundResult) -> None:
    """Keep the result of a finished round. A driver that takes the round again replaces it.

    Raises ``LeaseLost``.
    """
    with transaction.atomic():
        if not leases.extend(lease, revision=F("revision") + 1):
            raise LeaseLost
        LoadTestRound.objects.update_or_create(
            load_test=lease.load_test, number=result.number, defaults={"result": to_record(result)}
        )


def finish(lease: LoadTestLease, status: RunStatus, text: str, update: Update) -> None:
    """End a load test: set its final status, free its host, and record it in the audit log.

    Raises ``LeaseLost`` or ``Bug``.
    """
    load_test = lease.load_test
    level = Level.INFO if status is RunStatus.SUCCEEDED else Level.ERROR
    with transaction.atomic():
        leases.finish(lease, status, update, **_OVER)
        log_event(
            load_test,
            phrase("Load test {test} {ended}. {text}", test=load_test.pk, ended=_ENDED[status], text=text),
            level=level,
        )
        audit_move(load_test, status.value, code=update.changes.get("error", {}).get("code", ""))


def cancel(load_test: LoadTest, by: str) -> bool:
    """End a queued or lost load test at once, or request the stop of a running one. Return whether it was active.

    The next load test on the host, or the reconciler, removes the leftovers of a lost one. In the caller's transaction.
    """
    now = clock.now()
    rows = locked(LoadTest, load_test.pk)
    ended = {
        **_OVER,
        "status": RunStatus.CANCELLED,
        "finished_at": now,
        "cancel_requested_by": by,
        "revision": F("revision") + 1,
    }
    if rows.filter(status=RunStatus.QUEUED).update(**ended):
        text = phrase("Load test {test} was cancelled by {by} before it started.", test=load_test.pk, by=by)
    elif rows.filter(status=RunStatus.LOST).update(**ended, has_leftovers=True):
        text = phrase(
            "Load test {test} was ended by {by} while the host was unreachable. Processes may still be running there.",
            test=load_test.pk,
            by=by,
        )
    elif rows.filter(status=RunStatus.RUNNING, cancel_requested_at=None).update(
        cancel_requested_at=now, cancel_requested_by=by, next_tick_at=now, revision=F("revision") + 1
    ):
        text = phrase("Stop of load test {test} requested by {by}.", test=load_test.pk, by=by)
    else:
        return False
    log_event(load_test, text, level=Level.WARNING)
    return True


def leftovers(load_test: LoadTest) -> list[LoadTest]:
    """Return ended load tests with the same host that may have leftovers, there or on the load generator's."""
    rows = LoadTest.objects.filter(host=load_test.host_id, has_leftovers=True, status__in=RUN_FINAL)
    related = rows.exclude(pk=load_test.pk).select_related("host", "source__host", "generator_host")
    return list(related.order_by("pk")[:20])


def mark_removed(load_test: LoadTest) -> None:
    """Record that the leftovers of an ended load test were removed."""
    if LoadTest.objects.filter(pk=load_test.pk, has_leftovers=True).update(has_leftovers=False):
        log_event(
            load_test,
            phrase(
                "Removed the leftovers of load test {test} on {host}.",
                test=load_test.pk,
                host=load_test.host.name,
            ),
        )
