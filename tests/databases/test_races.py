"""Eight processes want the same thing at the same moment: one gets it, the others learn why not, nothing is lost."""

import os
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.databases.conftest import manage
from tests.databases.racers import Racer, loaded, race
from tests.servers import Server

pytestmark = pytest.mark.services

#: Of each race. More of them: `DBOPS_TEST_ROUNDS=100 script/test tests/databases/test_races.py`.
ROUNDS = int(os.environ.get("DBOPS_TEST_ROUNDS", "6"))

VERBS = {"approve": "rebuild.approved", "decline": "rebuild.declined", "override": "override.approval"}
DECISIONS = set(VERBS.values())


def running(seen: dict[str, Any]) -> list[int]:
    return [int(pk) for pk, status in seen["status"].items() if status == "running"]


def assert_holds_belong_to_what_runs(seen: dict[str, Any]) -> None:
    """Each rebuild that runs has both of its holds, no other has any, and no instance has two."""
    assert max(Counter(name for name, _ in seen["holds"]).values(), default=0) <= 1
    assert Counter(pk for _, pk in seen["holds"]) == dict.fromkeys(running(seen), 2)


def run_all_to_the_end(racers: list[Racer], ids: list[int], deed: str) -> int:
    """Let every process try, end what runs, and so on. Return how many rounds it took."""
    hand = racers[0]
    for turn in range(1, len(ids) + 2):
        if deed == "start":
            race(racers, "start", each=[(ids[(number + turn) % len(ids)],) for number in range(len(racers))])
        else:
            race(racers, deed)
        seen = hand.do("look")
        assert_holds_belong_to_what_runs(seen)
        hand.do("end", running(seen))
        if set(hand.do("look")["status"].values()) == {"succeeded"}:
            return turn
    raise AssertionError(f"not all have run: {hand.do('look')}")


def test_race_without_unique_locks_is_detected(server: Server, state_folder: Path) -> None:
    """The control: the same race in a database whose holds are not unique."""
    url = server.create("dbops_lockless")
    assert manage(url, server.folder, "migrate", "--no-input").returncode == 0
    with ExitStack() as stack:
        code = stack.enter_context(loaded(url, state_folder))
        racers = [stack.enter_context(closing(Racer(code))) for _ in range(4)]
        racers[0].do("make_holds_not_unique")
        targets = [f"replica-{number}" for number in range(4)]
        racers[0].do("instances", ["backup", *targets])
        ids = racers[0].do("queue", [("backup", target, 0) for target in targets])
        assert race(racers, "start", each=[(pk,) for pk in ids]).count("") > 1
        with pytest.raises(AssertionError):
            assert_holds_belong_to_what_runs(racers[0].do("look"))


def test_source_is_locked_once_in_a_race(racers: list[Racer]) -> None:
    targets = [f"replica-{number}" for number in range(8)]
    racers[0].do("instances", ["backup", *targets])
    for _ in range(ROUNDS):
        ids = racers[0].do("queue", [("backup", target, 0) for target in targets])
        reasons = race(racers, "start", each=[(pk,) for pk in ids])
        assert reasons.count("") == 1, reasons
        winner = ids[reasons.index("")]
        waits = {"", f"backup is held by rebuild {winner} (source)", "the holds were taken a moment ago"}
        assert set(reasons) <= waits
        seen = racers[0].do("look")
        assert_holds_belong_to_what_runs(seen)
        assert running(seen) == [winner]
        racers[0].do("end", [winner])
        racers[0].do("end_queued")


def test_rebuild_is_started_once_in_a_race(racers: list[Racer]) -> None:
    racers[0].do("instances", ["backup", "replica"])
    for _ in range(ROUNDS):
        (pk,) = racers[0].do("queue", [("backup", "replica", 0)])
        reasons = race(racers, "start", pk)
        assert reasons.count("") == 1, reasons
        seen = racers[0].do("look")
        assert_holds_belong_to_what_runs(seen)
        assert [text for number, text in seen["events"] if number == pk].count("Started.") == 1
        racers[0].do("end", [pk])


def test_rebuilds_with_swapped_targets_never_deadlock(racers: list[Racer]) -> None:
    """Each instance is the source of one rebuild and the target of another: the way to a deadlock, were there no order."""
    names = [f"replica-{number}" for number in range(4)]
    racers[0].do("instances", names)
    for _ in range(ROUNDS):
        pairs = [(names[number], names[(number + 1) % 4], 0) for number in range(4)]
        ids = racers[0].do("queue", pairs)
        run_all_to_the_end(racers, ids, "start")


def test_rebuild_is_decided_once_in_a_race(racers: list[Racer]) -> None:
    """Approve, decline, override, cancel and start at one moment: the rows are consistent in any order."""
    racers[0].do("instances", ["backup", "replica"])
    racers[0].do("colleague", "anna")
    said = [("approve", "anna"), ("decline", "anna"), ("override", "olga"), ("cancel", "olga")]
    for _ in range(ROUNDS):
        pk = racers[0].do("ask_for_approval", ("backup", "replica", 0))
        assert racers[0].do("start", pk) != "", "without approval"
        orders = [(verb, pk, name) for verb, name in [*said, ("approve", "anna"), ("decline", "anna")]]
        answers = race(racers, "say", each=[*orders, ("start", pk, ""), ("start", pk, "")])
        written = racers[0].do("decisions", pk)
        decisions = [action for action in written if action in DECISIONS]
        assert len(decisions) <= 1, written
        decided = [verb for (verb, *_), answer in zip(orders, answers, strict=False) if verb != "cancel" and not answer]
        assert [VERBS[verb] for verb in decided] == decisions, (answers, written)
        status = racers[0].do("look")["status"][str(pk)]
        if decisions == ["rebuild.declined"] or not decisions:
            assert (status, written.count("rebuild.started")) == ("cancelled", 0), written
        elif status == "running":
            assert (written.index(decisions[0]), written.count("rebuild.started")) == (0, 1), written
        racers[0].do("end", [pk] if status == "running" else [])
        racers[0].do("end_queued")
    assert racers[0].do("verify_log")[1] == []


def test_concurrent_schedulers_start_everything_once(racers: list[Racer]) -> None:
    sources, targets = ["backup-a", "backup-b"], [f"replica-{number}" for number in range(6)]
    racers[0].do("instances", [*sources, *targets])
    for _ in range(max(1, ROUNDS // 3)):
        ids = racers[0].do("queue", [(sources[number % 2], target, 0) for number, target in enumerate(targets)])
        assert run_all_to_the_end(racers, ids, "start_what_can") == 3
        events = Counter((number, text) for number, text in racers[0].do("look")["events"])
        assert all(events[pk, "Started."] == 1 for pk in ids)
        assert all(count == 1 for count in events.values()), events


def test_lease_is_taken_by_one_of_eight(racers: list[Racer]) -> None:
    racers[0].do("instances", ["backup", "replica"])
    for _ in range(ROUNDS):
        (pk,) = racers[0].do("queue", [("backup", "replica", 0)])
        assert racers[0].do("start", pk) == ""
        fences = race(racers, "take_lease", pk)
        assert len([fence for fence in fences if fence is not None]) == 1
        driver = next(racer for racer, fence in zip(racers, fences, strict=True) if fence)
        assert driver.do("finish", pk) == "finished"


def test_rebuild_ends_once_with_a_shared_lease(racers: list[Racer]) -> None:
    racers[0].do("instances", ["backup", "replica"])
    for _ in range(ROUNDS):
        (pk,) = racers[0].do("queue", [("backup", "replica", 0)])
        racers[0].do("start", pk)
        racers[0].do("take_lease", pk)
        owner = racers[0].do("look")["owners"][str(pk)]
        race(racers, "lend_lease", pk, owner)
        assert sorted(race(racers, "finish", pk)) == ["finished"] + ["lost"] * 7
        seen = racers[0].do("look")
        assert (seen["holds"], seen["with slot"]) == ([], 0)
        ended = [text for number, text in seen["events"] if number == pk and "has succeeded" in text]
        assert len(ended) == 1
    assert racers[0].do("look")["audit"].count("rebuild.succeeded") == ROUNDS


def test_concurrent_clicks_of_one_form_make_one_rebuild(racers: list[Racer]) -> None:
    for _ in range(max(1, ROUNDS // 3)):
        fingerprint = racers[0].do("fleet")
        answers = race(racers, "request", "one form", fingerprint)
        assert len({tuple(answer) for answer in answers}) == 1, answers
        assert answers[0][0] == "queued"
        seen = racers[0].do("look")
        assert len(seen["status"]) == 1
        assert seen["audit"] == ["rebuild.requested"]


def test_request_is_accepted_once_for_one_target(racers: list[Racer]) -> None:
    for _ in range(max(1, ROUNDS // 3)):
        fingerprint = racers[0].do("fleet")
        answers = race(racers, "request", each=[(f"form {number}", fingerprint) for number in range(len(racers))])
        refused = [answer for answer in answers if answer[0] == "refused"]
        assert refused == [["refused", "rebuild.busy"]] * 7, answers
        seen = racers[0].do("look")
        assert len(seen["status"]) == 1
        assert Counter(seen["audit"]) == {"rebuild.requested": 1, "rebuild.refused": 7}
