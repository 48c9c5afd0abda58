"""A process is killed or stopped in a transaction: nothing is partial, and other processes wait only briefly."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.databases.racers import Racer, loaded
from tests.loaded import Loaded
from tests.servers import Server
from tests.stack import wait_for

pytestmark = pytest.mark.services

DEEDS = ("start", "end", "start_what_can")


def stand_still(code: Loaded, folder: Path, deed: str, *arguments: Any) -> Racer:
    """Return a process that has written every row of a transaction, and has not committed."""
    mark = folder / f"{deed}-{time.monotonic()}"
    racer = Racer(code)
    racer.order("hang_in", deed, list(arguments), str(mark))
    wait_for("the middle of the transaction", mark.exists)
    return racer


def plain(seen: dict[str, Any]) -> dict[str, Any]:
    """Return what must be the same before and after; the lease is taken in a transaction of its own."""
    return {name: value for name, value in seen.items() if name != "owners"}


@pytest.mark.parametrize("deed", DEEDS)
def test_killed_process_leaves_no_partial_transaction(
    racers: list[Racer], code: Loaded, state_folder: Path, deed: str
) -> None:
    hand = racers[0]
    hand.do("instances", ["backup", "replica"])
    (pk,) = hand.do("queue", [("backup", "replica", 0)])
    if deed == "end":
        hand.do("start", pk)
    before = hand.do("look")
    arguments: dict[str, list[Any]] = {"start": [pk], "end": [[pk]], "start_what_can": []}
    dying = stand_still(code, state_folder, deed, *arguments[deed])
    assert plain(hand.do("look")) == plain(before)
    dying.kill()
    assert plain(hand.do("look")) == plain(before)
    if deed == "end":
        hand.do("forget_leases")
    else:
        assert hand.do("start", pk) == ""
    hand.do("end", [pk])
    assert hand.do("look")["status"] == {str(pk): "succeeded"}


def test_stopped_transaction_is_not_waited_for(
    racers: list[Racer], server: Server, url: str, state_folder: Path
) -> None:
    if server.kind == "sqlite":
        pytest.skip("SQLite can't end another process's transaction: docs/how-to/install.md says so")
    hand = racers[0]
    hand.do("instances", ["backup", "replica"])
    (pk,) = hand.do("queue", [("backup", "replica", 0)])
    with loaded(url, state_folder, DBOPS_DATABASE_WAIT_SECONDS="4") as impatient:
        still = stand_still(impatient, state_folder, "start", pk)
        is_not_waited_for(still, hand, pk)


def is_not_waited_for(still: Racer, hand: Racer, pk: int) -> None:
    began = time.monotonic()
    assert hand.do("start", pk) == ""
    assert time.monotonic() - began < 15
    os.kill(still.process.pid, signal.SIGCONT)
    with pytest.raises(AssertionError, match=r"InternalError|OperationalError"):
        still.answer()
    still.close()
    assert hand.do("look")["status"] == {str(pk): "running"}
    assert len(hand.do("look")["holds"]) == 2
