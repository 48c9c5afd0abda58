"""The same request of the API, sent eight times at one moment, is done once on every database."""

import uuid
from typing import Any

import pytest

from tests.databases.racers import Racer, race
from tests.databases.test_races import ROUNDS

pytestmark = pytest.mark.services


def requested(racers: list[Racer], secret: str) -> dict[str, Any]:
    status, _, plan = racers[0].do("api_post", secret, "/instances/replica-1/plan", {}, "plan")
    assert status == 200, plan
    return {
        "target": "replica-1",
        "confirm": "replica-1",
        "source": plan["source"],
        "reason": "the disk of the replica died",
        "fingerprint": plan["fingerprint"],
    }


def done_once(answers: list[list[Any]], status: int) -> int:
    """Return the number of the one object that was made; the other requests were answered with it, or sent back."""
    fresh = [body["id"] for number, repeated, body in answers if number == status and not repeated]
    assert len(fresh) == 1, answers
    for number, repeated, body in answers:
        if number == status:
            assert body["id"] == fresh[0]
        else:
            assert (number, repeated, body["code"]) == (409, False, "idempotency.in_progress")
    return int(fresh[0])


def test_rebuild_is_requested_once_in_a_race(racers: list[Racer]) -> None:
    for _ in range(ROUNDS):
        secret = racers[0].do("api_fleet")
        given = requested(racers, secret)
        made = done_once(race(racers, "api_post", secret, "/rebuilds", given, "one"), 201)
        assert (racers[0].do("api_rows")["Rebuild"], racers[0].do("api_rows")["KeptAnswer"]) == (1, 1)
        status, repeated, body = racers[0].do("api_post", secret, "/rebuilds", given, "one")
        assert (status, repeated, body["id"]) == (201, True, made)


def test_maintenance_is_announced_once_for_each_key_in_a_race(racers: list[Racer]) -> None:
    """No column makes maintenance unique: only the key does."""
    secret = racers[0].do("api_fleet")
    for number in range(ROUNDS):
        key = uuid.uuid4().hex
        answers = race(racers, "api_post", secret, "/clusters/shop/maintenance", {"reason": "switch"}, key)
        done_once(answers, 201)
        assert racers[0].do("api_rows")["Maintenance"] == number + 1


def test_without_a_shared_key_each_request_counts(racers: list[Racer]) -> None:
    """The control: the race does happen."""
    secret = racers[0].do("api_fleet")
    each = [(secret, "/clusters/shop/maintenance", {"reason": "switch"}, f"key-{n}") for n in range(len(racers))]
    assert {answer[0] for answer in race(racers, "api_post", each=each)} == {201}
    assert racers[0].do("api_rows")["Maintenance"] == len(racers)
