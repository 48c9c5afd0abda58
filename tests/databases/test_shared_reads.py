"""Races of rebuilds that share one read: no cycle of waits, and one lock on the source."""

from collections import Counter
from typing import Any

import pytest

from tests.databases.racers import Racer, race
from tests.databases.test_races import ROUNDS

pytestmark = pytest.mark.services


@pytest.fixture
def hand(racers: list[Racer]) -> Any:
    yield racers[0]
    racers[0].do("forget_reads")
    racers[0].do("empty")


def assert_it_fits_together(seen: dict[str, Any], targets: dict[int, str]) -> None:
    """Check that followers have no followers, that a queued follower has an active leader, and that one member holds the source."""
    leaders = {int(pk): leader for pk, leader in seen["leader"].items()}
    status = {int(pk): word for pk, word in seen["status"].items()}
    for pk, leader in leaders.items():
        if leader is None:
            continue
        assert leaders[leader] is None, f"{pk} waits for {leader}, which waits for {leaders[leader]}"
        assert status[pk] != "queued" or status[leader] in ("queued", "running"), f"{pk} waits for one that has ended"
    expected = Counter[tuple[str, int]]()
    for pk, word in status.items():
        if word == "running":
            expected[targets[pk], pk] += 1
            if leaders[pk] is None:
                expected["backup", pk] += 1
    assert Counter((name, pk) for name, pk in seen["holds"]) == expected
    assert sum(name == "backup" for name, _ in seen["holds"]) <= 1


def queued(hand: Racer, count: int) -> tuple[list[int], dict[int, str]]:
    names = [f"replica-{number}" for number in range(count)]
    ids = hand.do("line", names)
    return ids, dict(zip(ids, names, strict=True))


def test_mutual_join_leaves_one_leader(racers: list[Racer], hand: Racer) -> None:
    for _ in range(ROUNDS):
        (first, second), targets = queued(hand, 2)
        orders = [(first, second), (second, first)] * 4
        answers = race(racers, "join", each=orders)
        seen = hand.do("look_at_reads")
        assert_it_fits_together(seen, targets)
        assert sorted(seen["leader"].values(), key=bool) in ([None, first], [None, second]), answers
        assert answers.count("") == 1, answers
        assert set(answers) <= {"", "join.not_possible"}


def test_ring_of_joins_leaves_no_waiting_cycle(racers: list[Racer], hand: Racer) -> None:
    for _ in range(ROUNDS):
        ids, targets = queued(hand, 4)
        orders = [(ids[number % 4], ids[(number + 1) % 4]) for number in range(len(racers))]
        answers = race(racers, "join", each=orders)
        assert_it_fits_together(hand.do("look_at_reads"), targets)
        assert 1 <= answers.count("") <= 2, answers


def test_join_during_start_takes_matching_locks(racers: list[Racer], hand: Racer) -> None:
    for _ in range(ROUNDS):
        (leader, follower), targets = queued(hand, 2)
        orders = [("join", follower, leader), ("start", leader), ("start", follower), ("join", follower, leader)] * 2
        answers = race(racers, "share", each=orders)
        seen = hand.do("look_at_reads")
        assert_it_fits_together(seen, targets)
        assert "running" in seen["status"].values(), answers
        joined = seen["leader"][str(follower)] is not None
        assert joined == ("" in (answers[0], answers[3], answers[4], answers[7])), answers


def test_join_during_cancel_waits_for_nothing(racers: list[Racer], hand: Racer) -> None:
    for _ in range(ROUNDS):
        (leader, follower, third), targets = queued(hand, 3)
        orders = [
            ("join", follower, leader),
            ("cancel", leader),
            ("join", third, leader),
            ("join", follower, leader),
        ] * 2
        race(racers, "share", each=orders)
        seen = hand.do("look_at_reads")
        assert seen["status"][str(leader)] == "cancelled"
        assert_it_fits_together(seen, targets)


def test_join_during_start_and_cancel_is_not_left_behind(racers: list[Racer], hand: Racer) -> None:
    for _ in range(ROUNDS):
        (leader, follower), targets = queued(hand, 2)
        orders = [("join", follower, leader), ("start", leader), ("cancel", leader), ("start", follower)] * 2
        race(racers, "share", each=orders)
        assert_it_fits_together(hand.do("look_at_reads"), targets)
