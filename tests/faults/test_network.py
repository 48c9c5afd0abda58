"""Links between the dashboard, the source and the target are cut while a rebuild runs."""

from collections.abc import Iterator

import pytest

from tests.faults.conftest import Player
from tests.faults.injectors import network as injector
from tests.faults.kinds import network
from tests.faults.matrix import Fault

pytestmark = [pytest.mark.services, pytest.mark.faults]
KIND = network.__name__.rpartition(".")[2]


@pytest.fixture(scope="module", autouse=True)
def _no_rule_is_left() -> Iterator[None]:
    injector.remove_leftovers()
    if why := injector.may_cut():
        pytest.skip(why)
    yield
    assert injector.rules_of_this_process() == []


def test_network_fault(player: Player, fault: type[Fault], step: str) -> None:
    player(fault, step)
