"""Status bars for workers, beat and Redis: correct, timely and cheap."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dbops.engine.errors import RemoteFailure
from dbops.lifecycle import clock_steps
from dbops.models import ClockStep, InstanceState, ProcessHeartbeat
from dbops.web.live import status_bars
from dbops.web.live.status_bars import ProcessStatus, StatusBar, judge
from tests.app.factories import make_trio

NOW = datetime.fromisoformat("2026-03-01T03:00:00+00:00")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def codes(reported: dict[str, datetime], *, web_since: float = 3600, redis_away: float | None = None) -> list[str]:
    problem = None if redis_away is None else (status_bars._redis_away(), ago(redis_away))
    return [bar.error.code for bar in judge(reported, now=NOW, web_since=ago(web_since), redis_problem=problem)]


@pytest.mark.parametrize(
    ("beat", "worker", "expected"),
    [
        (1, 1, []),
        (39, 39, []),
        (1, 41, ["worker.away"]),
        (41, 1, ["beat.away"]),
        (41, 41, ["beat.away"]),  # without beat a worker has nothing to report
        (-5, -5, []),  # a clock that is ahead
        (-3600, -3600, []),  # of before a step back: the next report comes in seconds
    ],
)
def test_bars_name_silent_processes(beat: float, worker: float, expected: list[str]) -> None:
    assert codes({"beat": ago(beat), "worker": ago(worker)}) == expected


def test_bars_have_a_grace_period_after_installation() -> None:
    assert codes({}, web_since=59) == []
    assert codes({}, web_since=61) == ["beat.away"]
    assert codes({"beat": ago(1)}, web_since=59) == []
    assert codes({"beat": ago(1)}, web_since=61) == ["worker.away"]


def test_bars_name_only_redis_when_it_is_unreachable() -> None:
    assert codes({"beat": ago(99), "worker": ago(99)}, redis_away=12) == ["redis.away"]


def test_bars_name_a_step_back_before_its_effects() -> None:
    step = ClockStep(before=NOW + timedelta(minutes=58), at=NOW)
    found = judge({}, now=NOW, web_since=ago(99), redis_problem=None, step=step)
    assert [(bar.error.code, bar.since) for bar in found] == [("clock.stepped", NOW), ("beat.away", ago(99))]


def test_step_back_is_shown_until_every_instance_is_read_again(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessStatus, "is_fresh", False)
    monkeypatch.setattr(status_bars.current, "ask_redis", lambda: None)
    now = timezone.now()
    for name in ("beat", "worker"):
        ProcessHeartbeat.objects.create(name=name, at=now)
    read = make_trio()[2].state
    InstanceState.objects.filter(pk=read.pk).update(observed_at=now + timedelta(minutes=58))
    clock_steps.note_step(now + timedelta(minutes=58), now)
    assert "<code>clock.stepped</code>" in viewer.get("/status/").content.decode()
    InstanceState.objects.filter(pk=read.pk).update(observed_at=now)
    assert "<code>clock.stepped</code>" not in viewer.get("/status/").content.decode()
    monkeypatch.setattr(status_bars.current, "found", [])


class Asked:
    """A state of the bars whose clock, Redis and database the test moves."""

    def __init__(self) -> None:
        self.time, self.answers, self.reads = 0.0, True, 0
        self.status = ProcessStatus(
            read=self.read, ask_redis=self.ask_redis, find_step=lambda _: None, monotonic=lambda: self.time
        )

    def ask_redis(self) -> RemoteFailure | None:
        return None if self.answers else status_bars._redis_away()

    def read(self) -> dict[str, datetime]:
        self.reads += 1
        return dict.fromkeys(("beat", "worker"), timezone.now())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.undo()  # _all_is_well
    return Asked()


def test_bars_query_once_for_many_viewers(asked: Asked) -> None:
    for _ in range(100):
        asked.status.bars()
    assert asked.reads == 1
    asked.time = 5.1
    asked.status.bars()
    assert asked.reads == 2


def test_redis_bar_begins_at_the_first_failure_and_ends(asked: Asked) -> None:
    asked.answers = False
    first = asked.status.bars()
    asked.time = 6.0
    assert status_bars.key(asked.status.bars()) == status_bars.key(first) != ""
    asked.time, asked.answers = 12.0, True
    assert asked.status.bars() == []


def test_bars_read_an_unreachable_database_once(asked: Asked) -> None:
    def fails() -> dict[str, datetime]:
        asked.reads += 1
        raise OSError("away")

    asked.status.read = fails
    with pytest.raises(OSError, match="away"):
        asked.status.bars()
    assert asked.status.bars() == []
    assert asked.reads == 1


Say = Callable[..., None]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Iterator[Say]:
    """Let the pages tell what the test says."""

    def say(*errors: Any) -> None:
        found = [StatusBar(error(), timezone.now() - timedelta(seconds=47)) for error in errors]
        monkeypatch.setattr(status_bars.current, "found", found)

    return say


@pytest.mark.parametrize("page", ["/", "/rebuilds/", "/audit/", "/queue/", "/schedules/", "/backups/"])
def test_every_page_shows_the_bars(viewer: Client, say: Say, page: str) -> None:
    assert 'id="bar-' not in viewer.get(page).content.decode()
    say(status_bars._worker_away)
    text = " ".join(viewer.get(page).content.decode().split())
    assert 'id="bar-workeraway"' in text
    [seconds] = re.findall(r'data-elapsed="(\d+)"', text)
    assert 47 <= int(seconds) < 60
    assert "15 min" in text, "GUARD_IDLE_SECONDS"
    assert "45 s" in text, "GUARD_HEARTBEAT_SECONDS"
    assert "script/run worker" in text
    assert "<code>worker.away</code>" in text


def test_bars_take_no_query_while_fresh(viewer: Client, say: Say, django_assert_num_queries: Any) -> None:
    say(status_bars._redis_away)
    with django_assert_num_queries(3):  # session, user, groups
        assert "<code>redis.away</code>" in viewer.get("/status/").content.decode()


def test_bars_take_two_queries_when_stale(
    viewer: Client, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    monkeypatch.setattr(ProcessStatus, "is_fresh", False)
    monkeypatch.setattr(status_bars.current, "ask_redis", lambda: None)
    ProcessHeartbeat.objects.create(name="beat", at=timezone.now())
    ProcessHeartbeat.objects.create(name="worker", at=timezone.now() - timedelta(seconds=50))
    with django_assert_num_queries(5):
        text = viewer.get("/status/").content.decode()
    assert "<code>worker.away</code>" in text
    monkeypatch.setattr(status_bars.current, "found", [])


def test_status_poll_answers_204_when_nothing_changed(viewer: Client, say: Say) -> None:
    say(status_bars._beat_away)
    address = viewer.get("/status/").content.decode().split('hx-get="')[1].split('"')[0]
    assert viewer.get(address).status_code == 204
    say()
    gone = viewer.get(address)
    assert gone.status_code == 200
    assert 'id="bar-' not in gone.content.decode()
    assert viewer.get("/status/?shown=").status_code == 204


def test_status_poll_marks_a_logged_out_page(client: Client, db: None, say: Say) -> None:
    say(status_bars._worker_away)
    answer = client.get("/status/?shown=")
    text = answer.content.decode()
    assert answer.status_code == 200
    assert 'id="bar-logged-out"' in text
    assert "worker.away" not in text
    assert client.get("/status/?shown=logged-out").status_code == 204


def test_status_poll_answers_204_without_permission(stranger: Client, say: Say) -> None:
    say(status_bars._worker_away)
    assert stranger.get("/status/").status_code == 204
    assert "worker.away" not in stranger.get("/").content.decode()
