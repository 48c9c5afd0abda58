"""The stream goes over a link that is far, narrow, short or dirty."""

import pytest

from tests.faults.conftest import Player
from tests.faults.kinds import link
from tests.faults.matrix import Fault

pytestmark = [pytest.mark.services, pytest.mark.faults]
KIND = link.__name__.rpartition(".")[2]


def test_link_fault(player: Player, fault: type[Fault], step: str) -> None:
    player(fault, step)
