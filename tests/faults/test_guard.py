"""The dead-man switch on a source whose replication is paused."""

from collections.abc import Iterator

import pytest

from tests.faults.conftest import Player
from tests.faults.injectors import network
from tests.faults.kinds import guard
from tests.faults.matrix import Fault

pytestmark = [pytest.mark.services, pytest.mark.faults]
KIND = guard.__name__.rpartition(".")[2]


@pytest.fixture(scope="module", autouse=True)
def _no_rule_is_left() -> Iterator[None]:
    network.remove_leftovers()
    if why := network.may_cut():
        pytest.skip(why)
    yield
    assert network.rules_of_this_process() == []


def test_guard_fault(player: Player, fault: type[Fault], step: str) -> None:
    player(fault, step)
