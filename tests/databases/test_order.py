"""Who starts next: highest priority, then oldest, when the hold goes; and what a waiting rebuild says."""

import pytest

from tests.databases.racers import Racer
from tests.said import names

pytestmark = pytest.mark.services


def test_queue_orders_by_priority_then_age(racers: list[Racer]) -> None:
    hand = racers[0]
    targets = [f"replica-{number}" for number in range(5)]
    hand.do("instances", ["backup", *targets])
    priorities = [0, 0, 7, 0, 7]
    ids = hand.do("queue", [("backup", target, priority) for target, priority in zip(targets, priorities, strict=True)])
    order = []
    for _ in ids:
        started = hand.do("start_what_can")
        order += started
        hand.do("end", started)
    assert order == [ids[2], ids[4], ids[0], ids[1], ids[3]]
    assert hand.do("start_what_can") == []


def test_rebuild_on_a_free_source_starts_before_a_blocked_one(racers: list[Racer]) -> None:
    hand = racers[0]
    hand.do("instances", ["backup-a", "backup-b", *(f"replica-{number}" for number in range(5))])
    (running,) = hand.do("queue", [("backup-a", "replica-0", 0)])
    assert hand.do("start_what_can") == [running]
    first, urgent, free, later = hand.do(
        "queue",
        [
            ("backup-a", "replica-1", 0),
            ("backup-a", "replica-2", 9),
            ("backup-b", "replica-3", -1),
            ("backup-b", "replica-4", -1),
        ],
    )
    assert hand.do("start_what_can") == [free]
    waiting = hand.do("look")["waiting"]
    assert set(waiting) == {str(first), str(urgent), str(later)}
    assert names(waiting[str(first)], "backup-a", f"rebuild {running}")
    assert names(waiting[str(urgent)], "backup-a", f"rebuild {running}")
    assert names(waiting[str(later)], "backup-b", f"rebuild {free}")


def test_reason_follows_the_lock_and_is_logged_once(racers: list[Racer]) -> None:
    hand = racers[0]
    hand.do("instances", ["backup", *(f"replica-{number}" for number in range(3))])
    ids = hand.do("queue", [("backup", f"replica-{number}", 0) for number in range(3)])
    reasons = []
    for pk in ids:
        assert hand.do("start_what_can") == [pk]
        assert hand.do("start_what_can") == []
        reasons.append(hand.do("look")["waiting"].get(str(ids[2]), ""))
        hand.do("end", [pk])
    assert [names(reason, "backup", f"rebuild {pk}") for reason, pk in zip(reasons, ids, strict=False)] == [
        *(True, True, False)
    ]
    assert reasons[2] == ""
    found = [text for pk, text in hand.do("look")["events"] if pk == ids[2]]
    assert [sum(reason in text for text in found) for reason in reasons[:2]] == [1, 1]


def test_rebuild_that_needs_two_instances_gets_them_in_turn(racers: list[Racer]) -> None:
    """What comes later may not take the free one of the two again and again."""
    hand = racers[0]
    hand.do("instances", ["backup", "other", "replica-0", "replica-1", "replica-2"])
    (running,) = hand.do("queue", [("backup", "replica-0", 0)])
    assert hand.do("start_what_can") == [running]
    patient, late = hand.do("queue", [("backup", "replica-1", 0), ("replica-1", "replica-2", 0)])
    assert hand.do("start_what_can") == []
    waiting = hand.do("look")["waiting"]
    assert names(waiting[str(late)], "replica-1", f"rebuild {patient}")
    hand.do("end", [running])
    assert hand.do("start_what_can") == [patient]


def test_released_lock_goes_to_the_first_in_the_queue(racers: list[Racer]) -> None:
    hand = racers[0]
    hand.do("instances", ["backup", "replica-0", "replica-1", "replica-2"])
    (running,) = hand.do("queue", [("backup", "replica-0", 0)])
    hand.do("start_what_can")
    first, second = hand.do("queue", [("backup", "replica-1", 0), ("backup", "replica-2", 0)])
    assert hand.do("start_while_a_hold_goes", running) == []
    assert hand.do("start_what_can") == [first]
    [(waits, reason)] = hand.do("look")["waiting"].items()
    assert waits == str(second)
    assert names(reason, "backup", f"rebuild {first}")
