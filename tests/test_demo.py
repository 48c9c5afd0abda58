"""What script/demo promises: both addresses that it prints can be opened, and the sample is never taken for the real demonstration."""

from pathlib import Path
from typing import Any

import pytest

from script.lib.stage import FOLDER, Stage
from script.lib.supervisor import Failed, Process


class NobodyStops:
    wanted = pending_status = False

    def check(self) -> None:
        pass

    def begin_ending(self) -> None:
        pass


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stage:
    """Start and remove nothing; record what was requested."""
    monkeypatch.setattr("script.lib.stage.SAMPLE_FOLDER", tmp_path)
    found = Stage(NobodyStops(), lambda _: None, 18_000)  # type: ignore[arg-type]
    monkeypatch.setattr(Process, "start", lambda self: None)
    monkeypatch.setattr(found, "command", lambda *words, **options: asked.append((words, options)) or (0, ""))
    asked: list[Any] = []
    found.asked = asked  # type: ignore[attr-defined]
    return found


def test_demo_waits_for_both_addresses(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.start_sample({})
    asked: list[str] = []

    def answers(address: str) -> bool:
        asked.append(address)
        return address == stage.address or asked.count(address) > 1

    monkeypatch.setattr(stage, "_web_answers", answers)
    stage.wait_for_web()
    assert asked == [stage.address, stage.sample_address, stage.sample_address]


def test_sample_process_that_ends_is_reported(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(process: Process) -> None:
        raise Failed(f"{process.name} ended unexpectedly")

    stage.start_sample({})
    monkeypatch.setattr(stage, "_web_answers", lambda address: False)
    monkeypatch.setattr(Process, "check", ended)
    with pytest.raises(Failed, match="^sample "):
        stage.wait_for_web()


def test_sample_has_its_own_folder_port_and_mark(stage: Stage, tmp_path: Path) -> None:
    stage.start_sample({"operator": "secret"})
    [process] = stage.processes
    assert process.environment["DBOPS_STATE_DIR"] == str(tmp_path) != str(FOLDER)
    assert process.environment["DBOPS_SAMPLE"] == "1"
    assert process.environment["DBOPS_WEB_PORT"] == str(stage.sample_port) != str(stage.web_port)
    for words, options in stage.asked:  # type: ignore[attr-defined]
        assert options["environment"] == process.environment, words
    assert "DBOPS_SAMPLE" not in stage.environment
    assert stage.environment["DBOPS_SAMPLE_URL"] == stage.sample_address
