"""Rebuilds and backups want one source at the same moment, on every database: one gets it. What is due is queued once."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.databases.racers import Racer, race
from tests.databases.test_races import ROUNDS

pytestmark = pytest.mark.services


@pytest.fixture
def hand(racers: list[Racer]) -> Any:
    racers[0].do("forget_backups")
    yield racers[0]
    racers[0].do("forget_backups")


def test_source_is_locked_once_by_rebuilds_and_backups(racers: list[Racer], hand: Racer) -> None:
    targets = [f"replica-{number}" for number in range(4)]
    hand.do("instances", ["backup", *targets])
    for _ in range(ROUNDS):
        hand.do("forget_backups")
        hand.do("schedules", ["backup"])
        rebuilds = hand.do("queue", [("backup", target, 0) for target in targets])
        backups = [pk for _ in targets for pk in hand.do("queue_backups", ["backup"])]
        for number, racer in enumerate(racers):
            kind, ids = (("start", rebuilds), ("start_backup", backups))[number % 2]
            racer.order(kind, ids[number // 2])
        answers = [racer.answer() for racer in racers]
        assert answers.count("") == 1, answers
        assert len(hand.do("look_at_backups")["holds"]) in (1, 2)  # a rebuild holds its target as well


def test_concurrent_schedulers_read_a_source_once(racers: list[Racer], hand: Racer) -> None:
    targets = [f"replica-{number}" for number in range(4)]
    hand.do("instances", ["backup-a", "backup-b", *targets])
    hand.do("schedules", ["backup-a", "backup-b"])
    ids = hand.do("queue", [(f"backup-{'ab'[number % 2]}", target, 0) for number, target in enumerate(targets)])
    runs = hand.do("queue_backups", ["backup-a", "backup-b"])
    for _ in range(4):
        race(racers, "start_what_can")
        seen, backups = hand.do("look"), hand.do("look_at_backups")
        assert max(Counter(name for name, _, _ in backups["holds"]).values(), default=0) <= 1
        running = [int(pk) for pk, status in seen["status"].items() if status == "running"]
        backing_up = [int(pk) for pk, status in backups["status"].items() if status == "running"]
        assert Counter(pk for _, pk, _ in backups["holds"] if pk) == dict.fromkeys(running, 2)
        assert Counter(pk for _, _, pk in backups["holds"] if pk) == dict.fromkeys(backing_up, 1)
        hand.do("end", running)
        hand.do("end_backups", backing_up)
    assert set(hand.do("look")["status"].values()) == {"succeeded"}
    assert hand.do("look_at_backups")["status"] == {str(pk): "succeeded" for pk in runs}
    started = Counter(pk for pk, text in hand.do("look")["events"] if text == "Started.")
    assert started == dict.fromkeys(ids, 1)


def test_queue_due_queues_each_due_time_once_in_a_race(racers: list[Racer], hand: Racer) -> None:
    hand.do("instances", ["backup-a", "backup-b"])
    for _ in range(max(1, ROUNDS // 3)):
        hand.do("forget_backups")
        hand.do("schedules", ["backup-a", "backup-b"], 150.0)
        now = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        assert sum(race(racers, "queue_due", now)) == 2
        seen = hand.do("look_at_backups")
        assert Counter(seen["status"].values())["queued"] == 2
        assert max(Counter(seen["due"]).values()) <= 2  # one of each schedule for each due time


def test_run_backup_now_is_accepted_once_in_a_race(racers: list[Racer], hand: Racer) -> None:
    hand.do("instances", ["backup"])
    for _ in range(max(1, ROUNDS // 3)):
        hand.do("forget_backups")
        hand.do("schedules", ["backup"])
        assert sorted(race(racers, "run_backup_now", "backup")) == ["backup.active"] * 7 + ["queued"]
