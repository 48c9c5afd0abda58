"""Readings of wait events: who may ask, how a worker takes them, and what the page shows."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dbops.database import clock
from dbops.engine.capacity.waits import ReadingLimit, WaitClass
from dbops.engine.errors import Unreachable
from dbops.lifecycle.readings import KEPT
from dbops.models import AuditEntry, Instance, WaitReading
from dbops.worker import wait_readings
from dbops.worker.pending import pending
from tests.app.factories import make_trio
from tests.fakes import FakeDatabase

pytestmark = [pytest.mark.django_db]
PAGE, READ = "/instances/replica-1/waits/", "/instances/replica-1/waits/read/"
DICTIONARY, CACHE = "wait/synch/mutex/innodb/dict_sys_mutex", "wait/synch/mutex/sql/LOCK_table_cache"
SECOND = 10**12


@pytest.fixture
def trio(db: None) -> Any:
    return make_trio()


def only() -> WaitReading:
    return WaitReading.objects.get()


def rows(at: int, active: int, questions: int, is_on: int = 1, **waits: tuple[int, int]) -> list[dict[str, Any]]:
    """Return the answer of a server."""
    names = {"dictionary": DICTIONARY, "cache": CACHE}
    found: list[tuple[str, str, int, Any]] = [
        ("clock", "now", 0, at * 10**6),
        ("setup", "performance_schema", 0, is_on),
        ("status", "Uptime", 0, 5000 + at),
        ("status", "Questions", 0, questions),
        *(("consumer", name, 0, 1) for name in ("global_instrumentation", "thread_instrumentation")),
        ("instrument", DICTIONARY, 0, 1),
        ("active", "ended", 1, active * SECOND),
        *(("wait", names[name], count, seconds * SECOND) for name, (count, seconds) in waits.items()),
    ]
    return [dict(zip(("kind", "name", "count", "value"), row, strict=True)) for row in found]


def server(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> FakeDatabase:
    database = FakeDatabase()
    database.expect("SELECT VERSION", [{"version": "8.0.15", "comment": "MySQL Community Server"}])
    database.expect("SELECT 'clock'", *answers)
    monkeypatch.setattr(wait_readings, "open_database", lambda instance: database)
    return database


def make_due() -> None:
    WaitReading.objects.update(due_at=clock.now() - timedelta(seconds=1))


def test_operator_requests_a_reading(
    trio: Any, operator: Client, sent: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = operator.post(READ, {"seconds": "10"})
    row = only()
    assert (answer.status_code, answer["Location"]) == (302, f"{PAGE}?reading={row.pk}")
    assert (row.instance.name, row.seconds, row.status) == ("replica-1", 10, "queued")
    assert ("read_waits", row.pk) in sent
    entry = AuditEntry.objects.get(action="waits.requested")
    assert (entry.subject, entry.detail) == ("replica-1", {"reading": row.pk, "seconds": 10})


def test_viewer_reads_and_does_not_request(trio: Any, viewer: Client) -> None:
    assert viewer.get(PAGE).status_code == 200
    assert viewer.post(READ, {"seconds": "10"}).status_code == 403
    assert viewer.get(READ).status_code == 405
    assert not WaitReading.objects.exists()


@pytest.mark.parametrize("seconds", ["", "4", "61", "-5", "1e1", "٣٠", "99999999999999999999"])
def test_other_lengths_are_refused(trio: Any, operator: Client, seconds: str) -> None:
    assert operator.post(READ, {"seconds": seconds}).status_code == 409
    assert not WaitReading.objects.exists()


def test_tidb_node_is_refused_and_offered_no_reading(trio: Any, operator: Client) -> None:
    Instance.objects.filter(name="replica-1").update(role=Instance.Roles.TIDB)
    assert READ not in operator.get(PAGE).content.decode()
    answer = operator.post(READ, {"seconds": "10"})
    assert (answer.status_code, answer.context["error"]["code"]) == (409, "flavor.tidb")
    assert not WaitReading.objects.exists()


def test_second_click_leads_to_the_running_reading(trio: Any, operator: Client, sent: list[Any]) -> None:
    operator.post(READ, {"seconds": "10"})
    answer = operator.post(READ, {"seconds": "60"})
    assert answer["Location"] == f"{PAGE}?reading={only().pk}"
    assert only().seconds == 10
    assert AuditEntry.objects.filter(action="waits.requested").count() == 1


def test_unknown_instance_is_not_found(trio: Any, operator: Client) -> None:
    assert operator.get("/instances/missing/waits/").status_code == 404
    assert operator.post("/instances/missing/waits/read/", {"seconds": "10"}).status_code == 404


def test_two_readings_make_shares(
    trio: Any, operator: Client, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = server(
        monkeypatch,
        rows(0, 100, 1000, dictionary=(10, 1), cache=(5, 1)),
        rows(10, 120, 5000, dictionary=(1000, 9), cache=(10**9, 2)),
    )
    operator.post(READ, {"seconds": "10"})
    assert wait_readings.take_reading(only().pk)
    assert only().status == "waiting"
    assert not wait_readings.take_reading(only().pk), "it is not due yet"
    make_due()
    assert wait_readings.take_reading(only().pk)
    row = only()
    assert (row.status, row.slot, row.before) == ("succeeded", None, {})
    assert database.closed == 2
    page = operator.get(f"{PAGE}?reading={row.pk}")
    assert [(one.wait.event, one.percent, one.is_contention) for one in page.context["waits"]] == [
        (DICTIONARY, 40.0, True),
        (CACHE, 5.0, False),
    ]
    assert [one.kind for one in page.context["named"]] == [WaitClass.DATA_DICTIONARY]
    assert page.context["sessions"] == 2.0
    assert page.context["counters"] == [("Questions", 4000, 400.0)]


def test_repeated_message_takes_nothing_twice(
    trio: Any, operator: Client, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server(monkeypatch, rows(0, 1, 1), rows(10, 2, 2))
    operator.post(READ, {"seconds": "10"})
    key = only().pk
    WaitReading.objects.update(status="first", claimed_at=clock.now())
    assert not wait_readings.take_reading(key)
    WaitReading.objects.update(status="succeeded")
    assert not wait_readings.take_reading(key)


def test_server_without_performance_schema_is_told(
    trio: Any, operator: Client, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server(monkeypatch, rows(0, 0, 1000, is_on=0), rows(10, 0, 5000, is_on=0))
    operator.post(READ, {"seconds": "10"})
    wait_readings.take_reading(only().pk)
    make_due()
    wait_readings.take_reading(only().pk)
    page = operator.get(PAGE)
    assert [limit for limit, _ in page.context["limits"]] == [ReadingLimit.SCHEMA_OFF]
    assert page.context["waits"] == []
    assert page.context["counters"] == [("Questions", 4000, 400.0)]


def test_server_that_is_away_fails_the_reading(
    trio: Any, operator: Client, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server(monkeypatch, Unreachable("mysql.unreachable", "Querying", cause="Connection refused"))
    operator.post(READ, {"seconds": "10"})
    wait_readings.take_reading(only().pk)
    assert (only().status, only().slot, only().error["code"]) == ("failed", None, "mysql.unreachable")
    assert operator.get(PAGE).status_code == 200
    assert operator.post(READ, {"seconds": "10"}).status_code == 302
    assert WaitReading.objects.count() == 2


def test_worker_that_is_ended_leaves_unknown(
    trio: Any, operator: Client, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server(monkeypatch, KeyboardInterrupt())
    operator.post(READ, {"seconds": "10"})
    with pytest.raises(KeyboardInterrupt):
        wait_readings.take_reading(only().pk)
    assert (only().status, only().slot, only().error["code"]) == ("unknown", None, "waits.unknown")


@pytest.mark.parametrize(
    ("status", "column", "seconds", "expected"),
    [
        ("queued", "requested_at", 60, "queued"),
        ("queued", "requested_at", 121, "unknown"),
        ("first", "claimed_at", 60, "first"),
        ("first", "claimed_at", 91, "unknown"),
        ("second", "claimed_at", 91, "unknown"),
        ("waiting", "due_at", 60, "waiting"),
        ("waiting", "due_at", 121, "unknown"),
    ],
)
def test_reading_without_a_worker_ends(
    trio: Any, operator: Client, sent: list[Any], status: str, column: str, seconds: int, expected: str
) -> None:
    operator.post(READ, {"seconds": "10"})
    now = clock.now()
    WaitReading.objects.update(status=status, **{column: now - timedelta(seconds=seconds)})
    wait_readings.readings_due(now)
    assert only().status == expected


def test_due_readings_are_sent_to_workers(trio: Any, operator: Client, sent: list[Any]) -> None:
    assert "wait reading" not in pending(clock.now())
    operator.post(READ, {"seconds": "10"})
    now = clock.now()
    assert "wait reading" in pending(now)
    assert wait_readings.readings_due(now) == [only().pk]
    WaitReading.objects.update(status="waiting", due_at=now + timedelta(seconds=30))
    assert wait_readings.readings_due(now) == []
    assert wait_readings.readings_due(now + timedelta(seconds=31)) == [only().pk]


def test_old_readings_are_removed(trio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance.objects.get(name="replica-1")
    for _ in range(KEPT + 5):
        made(instance, timezone.now())
    server(monkeypatch, rows(0, 1, 1), rows(10, 2, 2))
    row = made(instance, timezone.now(), status="queued")
    wait_readings.take_reading(row.pk)
    make_due()
    wait_readings.take_reading(row.pk)
    kept = list(WaitReading.objects.values_list("pk", flat=True))
    assert len(kept) == KEPT
    assert kept[0] == row.pk


def made(instance: Instance, at: datetime, status: str = "failed") -> WaitReading:
    return WaitReading.objects.create(
        instance=instance, seconds=10, requested_by="olga", requested_at=at, status=status
    )


def test_poll_gets_the_reading_without_the_frame(trio: Any, operator: Client, sent: list[Any]) -> None:
    operator.post(READ, {"seconds": "10"})
    part = operator.get(f"{PAGE}?reading={only().pk}", headers={"HX-Request": "true"})
    text = part.content.decode()
    assert text.lstrip().startswith('<div id="wait-reading"')
    assert 'hx-trigger="every 1s"' in text
    WaitReading.objects.update(status="unknown", slot=None)
    part = operator.get(f"{PAGE}?reading={only().pk}", headers={"HX-Request": "true"})
    assert "hx-trigger" not in part.content.decode()


def test_reading_is_exported(trio: Any, operator: Client, sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    server(monkeypatch, rows(0, 100, 1000), rows(10, 120, 5000, dictionary=(1000, 8)))
    operator.post(READ, {"seconds": "10"})
    wait_readings.take_reading(only().pk)
    make_due()
    wait_readings.take_reading(only().pk)
    answer = operator.get(f"{PAGE}?reading={only().pk}&format=json")
    assert answer.json()["result"]["waits"][0] == {"event": DICTIONARY, "count": 1000, "seconds": 8.0, "share": 0.4}
    assert AuditEntry.objects.filter(action="data.exported").count() == 1
