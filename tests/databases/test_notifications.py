"""Eight processes look for events and send them at the same moment: each message arrives once."""

import json

import pytest

from tests.app.notifications.receivers import running_http
from tests.databases.racers import Racer, race

pytestmark = pytest.mark.services
ROUNDS = 3


def test_events_are_reported_once_in_a_race(racers: list[Racer]) -> None:
    with running_http() as server:
        racers[0].do("listen", server.address)
        for number in range(1, ROUNDS + 1):
            racers[0].do("miss", f"c{number}")
            looked = race(racers, "watch_and_send")
            assert any(did for did, _ in looked)
            # who looked last may have looked before the first one wrote
            racers[0].do("watch_and_send")
            found = racers[0].do("notified")
            assert (found["events"], found["deliveries"], found["sent"]) == (2 * number, 2 * number, 2 * number)
    bodies = [json.loads(body) for *_, body in server.seen]
    assert len({body["data"]["id"] for body in bodies}) == len(bodies) == 2 * ROUNDS
