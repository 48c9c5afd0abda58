"""Hosts and processes on them die, stop or come back while a rebuild runs."""

import pytest

from tests.faults.conftest import Player
from tests.faults.kinds import hosts
from tests.faults.matrix import Fault

pytestmark = [pytest.mark.services, pytest.mark.faults]
KIND = hosts.__name__.rpartition(".")[2]


def test_host_fault(player: Player, fault: type[Fault], step: str) -> None:
    player(fault, step)
