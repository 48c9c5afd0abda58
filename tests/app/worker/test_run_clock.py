"""A run's clock continues when the machine's clock is set, and never goes back."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dbops.worker import run_clock
from dbops.worker.run_clock import KEY, RunClock


class Machine:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.monotonic, self.boot = 1_800_000_000.0, 500.0, "first"
        monkeypatch.setattr("django.utils.timezone.now", lambda: datetime.fromtimestamp(self.wall, UTC))
        monkeypatch.setattr(run_clock.time, "monotonic", lambda: self.monotonic)
        monkeypatch.setattr(run_clock, "boot", lambda: self.boot)

    def wait(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("step", [-3600, -10, 10, 3600])
@pytest.mark.parametrize("is_another_process", [False, True])
def test_run_clock_counts_true_seconds_across_a_step(machine: Machine, step: float, is_another_process: bool) -> None:
    checkpoint: dict[str, Any] = {}
    clock = RunClock(checkpoint)
    began = clock.now()
    machine.wait(30)
    machine.wall += step
    machine.wait(12)
    later = RunClock(dict(checkpoint)) if is_another_process else clock
    assert later.now() - began == pytest.approx(42)


def test_run_clock_continues_with_the_databases_time_on_another_machine(machine: Machine) -> None:
    checkpoint: dict[str, Any] = {}
    began = RunClock(checkpoint).now()
    machine.boot, machine.monotonic = "second", 7.0
    machine.wall += 25
    assert RunClock(checkpoint).now() - began == pytest.approx(25)
    assert checkpoint[KEY]["boot"] == "second"


def test_run_clock_never_goes_back_on_another_machine(machine: Machine) -> None:
    checkpoint: dict[str, Any] = {}
    began = RunClock(checkpoint).now()
    machine.boot, machine.monotonic = "second", 7.0
    machine.wall -= 3600
    clock = RunClock(checkpoint)
    assert clock.now() == began
    machine.wait(5)
    assert clock.now() == pytest.approx(began + 5)


def test_run_clock_changes_the_checkpoint_rarely(machine: Machine) -> None:
    checkpoint: dict[str, Any] = {}
    clock = RunClock(checkpoint)
    clock.now()
    before = dict(checkpoint)
    for _ in range(100):
        machine.wait(0.5)
        clock.now()
    assert checkpoint == before
