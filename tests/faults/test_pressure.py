"""A busy source while a rebuild reads it."""

import pytest

from tests.faults.conftest import Player
from tests.faults.kinds import pressure
from tests.faults.matrix import Fault

pytestmark = [pytest.mark.services, pytest.mark.faults]
KIND = pressure.__name__.rpartition(".")[2]


def test_pressure_fault(player: Player, fault: type[Fault], step: str) -> None:
    player(fault, step)
