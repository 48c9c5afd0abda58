"""Restore tests: queue, start, driver's writes and end."""

import secrets
from datetime import datetime
from typing import Any, TypeAlias

from django.db import IntegrityError, transaction

from dbops.database import clock
from dbops.database.errors import locked
from dbops.engine.phrases import phrase
from dbops.engine.states import RUN_FINAL, Level, RunStatus
from dbops.lifecycle import leases, load_tests
from dbops.lifecycle.events import log_event, revision_update
from dbops.lifecycle.leases import Lease, Update, audit_move
from dbops.models import BackupRun, Host, RestoreTest

RestoreTestLease: TypeAlias = Lease[RestoreTest]
#: The columns of an ended restore test: no driver; run and host are free for the next one.
_OVER: dict[str, Any] = {
    **leases.NO_LEASE,
    "run_slot": None,
    "host_slot": None,
    "waiting_for": "",
    "unreachable_since": None,
}


def queue(run: BackupRun, text: str, *, by: str = "") -> RestoreTest | None:
    """Queue a restore test of a run, in the caller's transaction; ``None`` if one is active.

    ``by`` is the user, if any.
    """
    chosen, host = run.instance.cluster.restore_test_host, _host_for(run)
    try:
        with transaction.atomic():
            restore_test = RestoreTest.objects.create(
                uid=secrets.token_hex(8),
                run=run,
                source=run.instance,
                host=host,
                status=RunStatus.QUEUED,
                requested_by=by,
                requested_at=clock.now(),
                run_slot=run.pk,
            )
    except IntegrityError:
        return None
    log_event(restore_test, text)
    if chosen and host.name != chosen:
        log_event(
            restore_test,
            phrase(
                "{chosen}, the chosen host for restore tests of this cluster, is not in the inventory. The test runs on {host}.",
                chosen=chosen,
                host=host.name,
            ),
            level=Level.WARNING,
        )
    revision_update(restore_test)
    return restore_test


def _host_for(run: BackupRun) -> Host:
    """Return the host chosen for the cluster's restore tests, or the host with the file."""
    holder, chosen = run.instance.host, run.instance.cluster.restore_test_host
    return (Host.objects.filter(name=chosen).first() if chosen else None) or holder


def active(run: BackupRun) -> RestoreTest | None:
    """Return the active restore test of a run."""
    return RestoreTest.objects.filter(run_slot=run.pk).first()


def start(restore_test: RestoreTest) -> bool:
    """Start a queued restore test if its host has none. Return whether it started: the host's unique slot decides."""
    now = clock.now()
    try:
        with transaction.atomic():
            # locked, as by the start of a load test: only one of both begins
            Host.objects.select_for_update().filter(pk=restore_test.host_id).first()
            if load_tests.running_on([restore_test.host_id]).exists():
                return False
            begun = (
                locked(RestoreTest, restore_test.pk)
                .filter(status=RunStatus.QUEUED)
                .update(
                    status=RunStatus.RUNNING,
                    started_at=now,
                    next_tick_at=now,
                    host_slot=restore_test.host_id,
                    waiting_for="",
                )
            )
            if begun:
                log_event(
                    restore_test,
                    phrase(
                        "Restore test {test} started on {host}{source}.",
                        test=restore_test.pk,
                        host=restore_test.host.name,
                        source=_from_where(restore_test),
                    ),
                )
                revision_update(restore_test)
    except IntegrityError:
        return False
    return bool(begun)


def _from_where(restore_test: RestoreTest) -> str:
    holder = restore_test.source.host
    return "" if holder.pk == restore_test.host_id else phrase(", with the file on {host}", host=holder.name)


def delay(restore_test: RestoreTest, why: str) -> None:
    """Record what a queued restore test waits for."""
    rows = RestoreTest.objects.filter(pk=restore_test.pk, status=RunStatus.QUEUED).exclude(waiting_for=why)
    if rows.update(waiting_for=why):
        revision_update(restore_test)


def due(now: datetime) -> list[int]:
    """Return the ids of restore tests with due work and without a living driver."""
    return leases.due(RestoreTest, now)


def take_lease(restore_test_id: int) -> RestoreTestLease | None:
    """Become the driver of a restore test; ``None`` if it has a living driver or no due work."""
    return leases.take(RestoreTest, restore_test_id, "run", "source__cluster", "source__host", "host")


def finish(lease: RestoreTestLease, status: RunStatus, text: str, update: Update) -> None:
    """End a restore test: set its final status, free run and host, and record it in the audit log.

    Raises ``LeaseLost`` or ``Bug``.
    """
    restore_test = lease.restore_test
    level = Level.INFO if status is RunStatus.SUCCEEDED else Level.ERROR
    with transaction.atomic():
        leases.finish(lease, status, update, **_OVER)
        log_event(
            restore_test,
            phrase(
                "Restore test {test} {ended}. {text}",
                test=restore_test.pk,
                ended=_ENDED[status],
                text=text,
            ),
            level=level,
        )
        revision_update(restore_test)
        audit_move(restore_test, status.value, code=update.changes.get("error", {}).get("code", ""))


_ENDED = {
    RunStatus.SUCCEEDED: phrase("succeeded"),
    RunStatus.FAILED: phrase("failed"),
    RunStatus.CANCELLED: phrase("stopped"),
}


def stop(restore_test: RestoreTest, by: str) -> bool:
    """End a queued or lost restore test at once, or request the stop of a running one. Return whether it was active.

    The next restore test on the host removes the leftovers of a lost one. In the caller's transaction.
    """
    now = clock.now()
    rows = locked(RestoreTest, restore_test.pk)
    ended = {**_OVER, "status": RunStatus.CANCELLED, "finished_at": now, "cancel_requested_by": by}
    if rows.filter(status=RunStatus.QUEUED).update(**ended):
        text = phrase("Restore test {test} was cancelled by {by} before it started.", test=restore_test.pk, by=by)
    elif rows.filter(status=RunStatus.LOST).update(**ended, has_leftovers=True):
        text = phrase(
            "Restore test {test} was ended by {by} while the host was unreachable. Processes may still be running there.",
            test=restore_test.pk,
            by=by,
        )
    elif rows.filter(status=RunStatus.RUNNING, cancel_requested_at=None).update(
        cancel_requested_at=now, cancel_requested_by=by, next_tick_at=now
    ):
        text = phrase("Stop of restore test {test} requested by {by}.", test=restore_test.pk, by=by)
    else:
        return False
    log_event(restore_test, text, level=Level.WARNING)
    revision_update(restore_test)
    return True


def leftovers(restore_test: RestoreTest) -> list[RestoreTest]:
    """Return ended restore tests on the same host that may have leftovers."""
    rows = RestoreTest.objects.filter(host=restore_test.host, has_leftovers=True, status__in=RUN_FINAL)
    return list(rows.exclude(pk=restore_test.pk).select_related("source__host").order_by("pk")[:20])


def mark_removed(restore_test: RestoreTest) -> None:
    """Record that the leftovers of an ended restore test were removed."""
    if RestoreTest.objects.filter(pk=restore_test.pk, has_leftovers=True).update(has_leftovers=False):
        log_event(
            restore_test,
            phrase(
                "Removed the leftovers of restore test {test} on {host}.",
                test=restore_test.pk,
                host=restore_test.host.name,
            ),
        )
        revision_update(restore_test)
