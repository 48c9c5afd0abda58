"""Backup tools that lie or break."""

import pytest

from tests.faults.conftest import Player
from tests.faults.kinds import tools
from tests.faults.matrix import Fault

pytestmark = [pytest.mark.services, pytest.mark.faults]
KIND = tools.__name__.rpartition(".")[2]


def test_tool_fault(player: Player, fault: type[Fault], step: str) -> None:
    player(fault, step)
