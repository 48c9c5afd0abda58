"""Proofs of backups: the queue, the start, the driver's writes and the end."""

import secrets
from datetime import datetime
from typing import Any, TypeAlias

from django.db import IntegrityError, transaction
from django.utils import timezone

from dbops.database.errors import locked
from dbops.engine.states import RUN_FINAL, Level, RunStatus
from dbops.lifecycle import leases
from dbops.lifecycle.events import log_event, revision_update
from dbops.lifecycle.leases import Lease, Update, audit_move
from dbops.models import BackupRun, Host, RestoreTest

RestoreTestLease: TypeAlias = Lease[RestoreTest]
#: The columns of an end: nobody drives it any more, and its run and host are free for the next one.
_OVER: dict[str, Any] = {
    **leases.NO_LEASE,
    "run_slot": None,
    "host_slot": None,
    "waiting_for": "",
    "unreachable_since": None,
}


def queue(run: BackupRun, text: str, *, by: str = "") -> RestoreTest | None:
    """Queue a proof of a run, in the caller's transaction; ``None`` where one of it is not over. ``by``: who asked, empty for nobody."""
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
                requested_at=timezone.now(),
                run_slot=run.pk,
            )
    except IntegrityError:
        return None
    log_event(restore_test, text)
    if chosen and host.name != chosen:
        log_event(
            restore_test,
            f"{chosen}, chosen for this cluster's proofs, is not in the inventory: proven on {host.name}.",
            level=Level.WARNING,
        )
    revision_update(restore_test)
    return restore_test


def _host_for(run: BackupRun) -> Host:
    """Return the host that was chosen for the cluster's proofs, else the one that has the file."""
    holder, chosen = run.instance.host, run.instance.cluster.restore_test_host
    return (Host.objects.filter(name=chosen).first() if chosen else None) or holder


def active(run: BackupRun) -> RestoreTest | None:
    """Return the proof of a run that is not over."""
    return RestoreTest.objects.filter(run_slot=run.pk).first()


def start(restore_test: RestoreTest) -> bool:
    """Begin a queued proof where its host has none. Return whether it did: the host's unique slot has the last word."""
    now = timezone.now()
    try:
        with transaction.atomic():
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
                    f"Proof {restore_test.pk} begins on {restore_test.host.name}{_from_where(restore_test)}.",
                )
                revision_update(restore_test)
    except IntegrityError:
        return False
    return bool(begun)


def _from_where(restore_test: RestoreTest) -> str:
    holder = restore_test.source.host
    return "" if holder.pk == restore_test.host_id else f", with the file on {holder.name}"


def delay(restore_test: RestoreTest, why: str) -> None:
    """Say what a queued proof waits for."""
    rows = RestoreTest.objects.filter(pk=restore_test.pk, status=RunStatus.QUEUED).exclude(waiting_for=why)
    if rows.update(waiting_for=why):
        revision_update(restore_test)


def due(now: datetime) -> list[int]:
    """Return the ids of proofs that have work due and no living owner."""
    return leases.due(RestoreTest, now)


def take_lease(restore_test_id: int) -> RestoreTestLease | None:
    """Become the driver of a proof, or ``None`` when it has a living one or nothing to do."""
    return leases.take(RestoreTest, restore_test_id, "run", "source__cluster", "source__host", "host")


def finish(lease: RestoreTestLease, status: RunStatus, text: str, update: Update) -> None:
    """Give the proof its last status, free run and host, and write it into the audit log. Raises ``LeaseLost``, or ``Bug``."""
    restore_test = lease.restore_test
    level = Level.INFO if status is RunStatus.SUCCEEDED else Level.ERROR
    with transaction.atomic():
        leases.finish(lease, status, update, **_OVER)
        log_event(restore_test, f"Proof {restore_test.pk} has {_ENDED[status]}. {text}", level=level)
        revision_update(restore_test)
        audit_move(restore_test, status.value, code=update.changes.get("error", {}).get("code", ""))


_ENDED = {RunStatus.SUCCEEDED: "succeeded", RunStatus.FAILED: "failed", RunStatus.CANCELLED: "been stopped"}


def stop(restore_test: RestoreTest, by: str) -> bool:
    """End a queued proof at once and have its driver end a running one; a lost one ends without its host. Return whether there was one.

    What a lost one may have left is removed by the next proof on its host. In the caller's transaction.
    """
    now = timezone.now()
    rows = locked(RestoreTest, restore_test.pk)
    ended = {**_OVER, "status": RunStatus.CANCELLED, "finished_at": now, "cancel_requested_by": by}
    if rows.filter(status=RunStatus.QUEUED).update(**ended):
        text = f"Proof {restore_test.pk} was stopped by {by} before it began."
    elif rows.filter(status=RunStatus.LOST).update(**ended, has_leftovers=True):
        text = (
            f"Proof {restore_test.pk} was ended by {by} while its host was silent: nothing is known of what runs there."
        )
    elif rows.filter(status=RunStatus.RUNNING, cancel_requested_at=None).update(
        cancel_requested_at=now, cancel_requested_by=by, next_tick_at=now
    ):
        text = f"{by} asked for the end of proof {restore_test.pk}."
    else:
        return False
    log_event(restore_test, text, level=Level.WARNING)
    revision_update(restore_test)
    return True


def leftovers(restore_test: RestoreTest) -> list[RestoreTest]:
    """Return ended proofs on the same host of which something may still be there."""
    rows = RestoreTest.objects.filter(host=restore_test.host, has_leftovers=True, status__in=RUN_FINAL)
    return list(rows.exclude(pk=restore_test.pk).select_related("source__host").order_by("pk")[:20])


def mark_removed(restore_test: RestoreTest) -> None:
    """Note that nothing of an ended proof is left on its host."""
    if RestoreTest.objects.filter(pk=restore_test.pk, has_leftovers=True).update(has_leftovers=False):
        log_event(restore_test, f"What proof {restore_test.pk} had left on {restore_test.host.name} is removed.")
        revision_update(restore_test)
