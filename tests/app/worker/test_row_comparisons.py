"""A tick of a row comparison, with played servers: it waits, ends, and lets a stopped target replicate first."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.errors import Unreachable
from dbops.engine.states import RunStatus
from dbops.lifecycle import row_comparisons
from dbops.models import AuditEntry, Hold, RowComparison
from dbops.operations.row_comparisons import cancel_comparison
from dbops.worker import driver, wiring
from dbops.worker.row_comparisons import ComparisonDriver
from tests.app import rows
from tests.app.comparison_rows import LEFT, queued_comparison
from tests.engine.rebuilds.test_certificate import Answers

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
SERVER = dict(zip(("id", "host", "port", "datadir"), LEFT["server"], strict=True))
STOPPED = {"Slave_IO_Running": "Yes", "Slave_SQL_Running": "No", "Master_Host": "10.0.0.11", "Master_Port": "3306"}
Play = Callable[..., list[str]]


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch) -> RowComparison:
    monkeypatch.setattr(driver.LeaseRenewal, "run", lambda self: None)
    monkeypatch.setattr(wiring, "open_jobs", lambda *_, **__: type("NoJobs", (), {"shell": None}))
    found = queued_comparison()
    assert row_comparisons.start(found)
    return found


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Let every server give these answers; return what they are asked."""

    def answering(**answers: Any) -> list[str]:
        server = Answers({"@@hostname": [SERVER], "SLAVE": [STOPPED], **answers})
        monkeypatch.setattr(wiring, "open_database", lambda *_, **__: server)
        monkeypatch.setattr(wiring, "connect_to", lambda *_, **__: server)
        return server.asked

    return answering


def test_tick_that_can_compare_nothing_now_says_why_and_frees_the_worker(comparison: RowComparison, play: Play) -> None:
    play()
    assert ComparisonDriver.tick(comparison.pk)
    comparison.refresh_from_db()
    assert comparison.status == RunStatus.RUNNING
    assert comparison.waiting_for
    assert comparison.lease_owner == ""
    assert comparison.next_tick_at is not None
    assert comparison.next_tick_at > timezone.now()


def test_held_server_is_not_even_asked(comparison: RowComparison, play: Play) -> None:
    asked = play()
    holder = {"rebuild": comparison.rebuild, "purpose": "source", "taken_at": timezone.now()}
    Hold.objects.create(instance=comparison.target, **holder)
    assert ComparisonDriver.tick(comparison.pk)
    assert asked == []


def test_target_that_a_dead_worker_left_stopped_replicates_although_it_is_held(
    comparison: RowComparison, play: Play
) -> None:
    asked = play()
    Hold.objects.create(
        instance=comparison.target, rebuild=comparison.rebuild, purpose="source", taken_at=timezone.now()
    )
    known = {**comparison.checkpoint, "certify.paused": True}
    RowComparison.objects.update(checkpoint=known, is_pausing=True, paused_at=timezone.now())
    assert ComparisonDriver.tick(comparison.pk)
    assert "START ALL SLAVES" in asked
    comparison.refresh_from_db()
    assert (comparison.is_pausing, comparison.checkpoint["certify.paused"]) == (False, False)


def test_other_server_gets_no_statement_that_changes_it(comparison: RowComparison, play: Play) -> None:
    asked = play(**{"@@hostname": [{**SERVER, "id": "99"}]})
    known = {**comparison.checkpoint, "certify.paused": True}
    RowComparison.objects.update(checkpoint=known)
    assert ComparisonDriver.tick(comparison.pk) is None
    comparison.refresh_from_db()
    assert (comparison.status, comparison.error["code"]) == (RunStatus.FAILED, "comparison.other_server")
    assert not any(sql.startswith(("START", "STOP")) for sql in asked)
    assert ComparisonDriver.tick(comparison.pk) is None


@pytest.mark.parametrize("is_paused", [False, True])
def test_cancelled_comparison_ends_when_the_target_is_known_to_replicate(
    comparison: RowComparison, play: Play, is_paused: bool
) -> None:
    known = {**comparison.checkpoint, "certify.paused": is_paused, "certify.rows": {"at": ["a secret"]}}
    RowComparison.objects.update(checkpoint=known)
    cancel_comparison(actor=rows.make_user("otto", "operator"), comparison=comparison)
    silent = Unreachable("mysql.unreachable", "Connecting", cause="2003: refused")
    play(**{"@@hostname": silent})
    waits = ComparisonDriver.tick(comparison.pk)
    comparison.refresh_from_db()
    assert (waits is None, comparison.status) == ((False, "running") if is_paused else (True, "cancelled"))
    if is_paused:
        asked = play()
        RowComparison.objects.update(next_tick_at=timezone.now() - timedelta(seconds=1))
        assert ComparisonDriver.tick(comparison.pk) is None
        assert "START ALL SLAVES" in asked
    comparison.refresh_from_db()
    assert (comparison.status, comparison.error["code"]) == (RunStatus.CANCELLED, "comparison.cancelled")
    assert "a secret" not in str(comparison.checkpoint)
    assert AuditEntry.objects.filter(action="comparison.cancelled").count() == 1


def test_silent_server_does_not_end_it_within_a_day(comparison: RowComparison, play: Play) -> None:
    play(**{"@@hostname": Unreachable("mysql.unreachable", "Connecting", cause="2003: refused")})
    assert ComparisonDriver.tick(comparison.pk)
    comparison.refresh_from_db()
    assert comparison.status == RunStatus.RUNNING
    assert comparison.unreachable_since is not None
    now = timezone.now()
    RowComparison.objects.update(unreachable_since=now - timedelta(hours=25), next_tick_at=now)
    assert ComparisonDriver.tick(comparison.pk) is None
    comparison.refresh_from_db()
    assert (comparison.status, comparison.error["code"]) == (RunStatus.FAILED, "mysql.unreachable")
