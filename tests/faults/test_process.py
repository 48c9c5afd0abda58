"""Workers, beat, web, Redis and the database of the dashboard fail while a rebuild runs; messages come twice; people cancel."""

import pytest

from tests.faults.conftest import Player
from tests.faults.kinds import cancel, control, messages, services, worker
from tests.faults.matrix import Fault

pytestmark = [pytest.mark.services, pytest.mark.faults]
KINDS = tuple(module.__name__.rpartition(".")[2] for module in (control, worker, services, messages, cancel))


def test_process_fault(player: Player, fault: type[Fault], step: str) -> None:
    player(fault, step)
