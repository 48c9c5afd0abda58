"""A worker keeps a row while the broker is away."""

import time
from collections.abc import Callable

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from dbops.worker import drive as module
from dbops.worker.drive import drive, time_limit

ROW = 7


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the hints that were sent; the broker is away for the first two."""
    sent: list[str] = []

    def publish(task: str, *_: int) -> bool:
        sent.append(task)
        return len(sent) > 2

    monkeypatch.setattr(module.wakeups, "publish", publish)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    return sent


def answering(*waits: float | None) -> tuple[list[int], Callable[[int], float | None]]:
    ticks: list[int] = []

    def tick(row_id: int) -> float | None:
        ticks.append(row_id)
        return waits[min(len(ticks), len(waits)) - 1]

    return ticks, tick


def test_drive_keeps_the_row_until_the_broker_answers(published: list[str]) -> None:
    ticks, tick = answering(0.0)
    drive(tick, ROW, lambda: module.wakeups.publish("drive_rebuild", ROW))
    assert (ticks, published) == ([ROW] * 3, ["drive_rebuild"] * 3)


def test_drive_keeps_a_waiting_row_too(published: list[str]) -> None:
    ticks, tick = answering(2.0)
    drive(tick, ROW, lambda: module.wakeups.publish("drive_rebuild", ROW))
    assert (ticks, published) == ([ROW] * 3, ["reconcile"] * 3)


def test_drive_ends_with_the_row(published: list[str]) -> None:
    ticks, tick = answering(0.0, None)
    drive(tick, ROW, lambda: module.wakeups.publish("drive_rebuild", ROW))
    assert (ticks, published) == ([ROW] * 2, ["drive_rebuild"])


def test_drive_ends_after_the_longest_outage(published: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_OUTAGE_SECONDS", 0)
    ticks, tick = answering(0.0)
    drive(tick, ROW, lambda: module.wakeups.publish("drive_rebuild", ROW))
    assert ticks == []


def test_time_limit_ends_a_tick_that_hangs() -> None:
    began = time.monotonic()
    with pytest.raises(SoftTimeLimitExceeded), time_limit(1):
        time.sleep(10)
    assert time.monotonic() < began + 5
