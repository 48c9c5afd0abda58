"""Nothing that ``reconcile`` would do is left out of the one statement that says whether it has to look."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.audit.log import append
from dbops.engine.states import FINAL, RunStatus, Status
from dbops.models import AuditSink, BackupSchedule, ConnectionTest, Discovery, Instance, Rebuild
from dbops.worker import scheduler, tasks
from dbops.worker.pending import SINK, pending
from tests.app.backup_rows import make_run, make_schedule
from tests.app.comparison_rows import made_comparison
from tests.app.factories import make_rebuild, make_trio
from tests.app.restore_test_rows import ended_restore_test, made

pytestmark = pytest.mark.django_db

Trio = tuple[Instance, Instance, Instance]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the calls of the scheduler: none if ``reconcile`` did not run."""
    asked: list[Any] = []
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce_many", lambda *_: None)
    monkeypatch.setattr(scheduler, "start_what_can", lambda: asked.append("start"))
    return asked


@pytest.fixture
def trio() -> Trio:
    return make_trio()


def ended(trio: Trio) -> Rebuild:
    return make_rebuild(target=trio[2], source=trio[1], status=Status.SUCCEEDED)


def rebuild(trio: Trio, status: Status, **values: Any) -> None:
    make_rebuild(target=trio[2], source=trio[1], status=status, **values)


def schedule(trio: Trio, **values: Any) -> BackupSchedule:
    return make_schedule(trio[1], **values)


def restore_test(trio: Trio, status: RunStatus, **values: Any) -> None:
    ended_restore_test(made(schedule(trio)), status, finished_at=None, **values)


def asked(model: type[Discovery] | type[ConnectionTest], status: str) -> None:
    values = {"uid": "ab", "kind": "ssh"} if model is ConnectionTest else {"address": "10.0.0.1"}
    model.objects.create(status=status, requested_at=timezone.now(), requested_by="olga", **values)


def in_seconds(seconds: float) -> Any:
    return timezone.now() + timedelta(seconds=seconds)


WAITING: dict[str, tuple[str, Callable[[Trio], Any]]] = {
    "never scheduled": ("schedule", lambda trio: schedule(trio, next_due_at=None)),
    "due backup": ("schedule", lambda trio: schedule(trio, next_due_at=in_seconds(-1))),
    "queued rebuild": ("queued rebuild", lambda trio: rebuild(trio, Status.QUEUED)),
    "not before": ("queued rebuild", lambda trio: rebuild(trio, Status.QUEUED, not_before=in_seconds(900))),
    "queued run": ("queued backup run", lambda trio: make_run(schedule(trio))),
    "queued restore test": ("queued restore test", lambda trio: restore_test(trio, RunStatus.QUEUED)),
    "due rebuild": ("rebuild", lambda trio: rebuild(trio, Status.RUNNING, next_tick_at=in_seconds(-1))),
    "lost rebuild": ("rebuild", lambda trio: rebuild(trio, Status.LOST, next_tick_at=in_seconds(-1))),
    "dead driver": (
        "rebuild",
        lambda trio: rebuild(
            trio, Status.RUNNING, next_tick_at=in_seconds(-60), lease_owner="a", lease_until=in_seconds(-1)
        ),
    ),
    "due run": ("backup run", lambda trio: make_run(schedule(trio), RunStatus.RUNNING)),
    "due restore test": (
        "restore test",
        lambda trio: restore_test(trio, RunStatus.RUNNING, next_tick_at=in_seconds(-1)),
    ),
    "queued row comparison": (
        "queued row comparison",
        lambda trio: made_comparison(ended(trio), RunStatus.QUEUED),
    ),
    "due row comparison": (
        "row comparison",
        lambda trio: made_comparison(ended(trio), RunStatus.RUNNING, next_tick_at=in_seconds(-1)),
    ),
    **{
        f"sweep after {status}": ("sweep", lambda trio, end=status: rebuild(trio, end, sweep_due_at=in_seconds(-1)))
        for status in sorted(FINAL)
    },
    "discovery": ("discovery", lambda _: asked(Discovery, "queued")),
    "discovery at work": ("discovery", lambda _: asked(Discovery, "running")),
    "connection test": ("connection test", lambda _: asked(ConnectionTest, "queued")),
    "connection test at work": ("connection test", lambda _: asked(ConnectionTest, "running")),
}


@pytest.mark.parametrize("name", WAITING)
def test_reconcile_finds_everything_that_waits(name: str, trio: Trio, looks: list[Any]) -> None:
    kind, make = WAITING[name]
    make(trio)
    assert kind in pending(timezone.now())
    tasks.reconcile()
    assert looks == ["start"]


def sink(**values: Any) -> None:
    append(actor="olga", action="login.failed", subject="x")
    known = {"sent_sequence": 0, "next_try_at": in_seconds(-1), "created_at": timezone.now()}
    AuditSink.objects.create(name="siem", address="https://siem/", **known | values)


def test_reconcile_looks_at_no_job_for_an_audit_sink(looks: list[Any]) -> None:
    sink()
    assert pending(timezone.now()) == {SINK}
    tasks.reconcile()
    assert looks == []


IDLE: dict[str, Callable[[Trio], Any]] = {
    "nothing": lambda _: None,
    "a living driver": lambda trio: rebuild(
        trio, Status.RUNNING, next_tick_at=in_seconds(-60), lease_owner="a", lease_until=in_seconds(20)
    ),
    "asked again later": lambda trio: rebuild(trio, Status.LOST, next_tick_at=in_seconds(10)),
    "a backup tonight": lambda trio: schedule(trio, next_due_at=in_seconds(3600)),
    "a schedule that is off": lambda trio: schedule(trio, next_due_at=in_seconds(-1), is_enabled=False),
    "others' backup": lambda trio: schedule(trio, next_due_at=in_seconds(-1), run_by="external"),
    "a sweep later": lambda trio: rebuild(trio, Status.FAILED, sweep_due_at=in_seconds(30)),
    "an ended rebuild": lambda trio: rebuild(trio, Status.SUCCEEDED),
    "a paused row comparison": lambda trio: made_comparison(ended(trio), RunStatus.RUNNING, next_tick_at=in_seconds(5)),
    "an ended row comparison": lambda trio: made_comparison(ended(trio), RunStatus.SUCCEEDED),
    "a sink that has all entries": lambda _: sink(sent_sequence=10**6),
    "a sink that failed": lambda _: sink(next_try_at=in_seconds(5)),
    "a sink that a worker serves": lambda _: sink(lease_owner="a", lease_until=in_seconds(5)),
    "an ended discovery": lambda _: asked(Discovery, "done"),
    "an ended test": lambda _: asked(ConnectionTest, "passed"),
}


@pytest.mark.parametrize("name", IDLE)
def test_reconcile_takes_one_query_when_idle(name: str, trio: Trio, looks: list[Any]) -> None:
    IDLE[name](trio)
    with CaptureQueriesContext(connection) as queries:
        tasks.reconcile()
    assert (len(queries), looks) == (1, [])


def test_pending_uses_the_current_time_with_a_cached_statement(trio: Trio) -> None:
    schedule(trio, next_due_at=in_seconds(100))
    assert not pending(timezone.now())
    assert pending(in_seconds(101)) == {"schedule"}
    assert not pending(timezone.now())
