"""Disks fill up while a rebuild runs."""

import pytest

from tests.faults.conftest import Player
from tests.faults.kinds import disks
from tests.faults.matrix import Fault

pytestmark = [pytest.mark.services, pytest.mark.faults]
KIND = disks.__name__.rpartition(".")[2]


def test_disk_fault(player: Player, fault: type[Fault], step: str) -> None:
    player(fault, step)
