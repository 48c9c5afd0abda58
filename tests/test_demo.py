"""What script/demo promises: both addresses that it prints can be opened, and the sample is never taken for the real demonstration."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from script.lib import supervisor
from script.lib.options import parse
from script.lib.stage import FOLDER, PEOPLE, Stage, read_settings
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


def test_demo_makes_a_superuser_beside_the_groups(stage: Stage) -> None:
    stage._make_accounts(dict.fromkeys(PEOPLE, "secret"), {})
    made = [words[words.index("create") + 1 :] for words, _ in stage.asked]  # type: ignore[attr-defined]
    assert {words[0]: "--superuser" in words for words in made} == {
        "operator": False,
        "viewer": False,
        "superuser": True,
    }


def test_help_of_the_demo_names_the_variables_of_the_lab(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    assert {"LAB_PARENT", "LAB_NETWORK"} <= set(re.findall(r"[A-Z_]{5,}", capsys.readouterr().out))


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


def test_command_line_has_the_settings_of_the_demonstration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text("# more\n\nDBOPS_OIDC_NAME=the company\n")
    found = Stage(NobodyStops(), lambda _: None, 18_000, read_settings(str(file)))  # type: ignore[arg-type]
    found.environment["DBOPS_STATE_DIR"] = str(tmp_path)  # the command makes its keys there
    found.write_command_line()
    assert found.command_line.stat().st_mode & 0o077 == 0
    code = "from django.conf import settings; print(settings.STATE_DIR, settings.REDIS_URL, settings.OIDC_NAME)"
    words = [found.command_line, "shell", "--no-imports", "--command", code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=2) == [
        str(tmp_path),
        found.environment["DBOPS_REDIS_URL"],
        "the company\n",
    ]


@pytest.mark.parametrize("line", ["PATH=/tmp", "DBOPS_BASE_URL", "DBOPS_STATE_DIR=/tmp"])
def test_settings_that_cannot_be_are_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "settings").write_text(line)
    with pytest.raises(Failed):
        Stage(NobodyStops(), lambda _: None, 18_000, read_settings(str(tmp_path / "settings")))  # type: ignore[arg-type]


def test_sample_gets_no_settings_of_a_person(stage: Stage) -> None:
    stage.settings = {"DBOPS_OIDC_ISSUER": "https://sso.example.org"}
    stage.environment |= stage.settings
    stage.start_sample({})
    assert "DBOPS_OIDC_ISSUER" not in stage.processes[0].environment


#: Writes a line, starts a child, and writes the child's number.
WORKER = ("bash", "-c", 'sleep 300 & echo begins; echo $! >> "$CHILDREN"; wait')


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Process]:
    environment = {"PATH": os.environ["PATH"], "CHILDREN": str(tmp_path / "children")}
    process = Process("worker", WORKER, environment, tmp_path)
    process.start()
    yield process
    process.stop(1)


def children_of(worker: Process, count: int) -> list[int]:
    file, deadline = Path(worker.environment["CHILDREN"]), time.monotonic() + 10
    while time.monotonic() < deadline:
        if file.exists() and len(found := file.read_text().splitlines()) >= count:
            return [int(line) for line in found]
        time.sleep(0.02)
    raise AssertionError("the process did not start")


def end(worker: Process, number: int) -> None:
    assert worker.popen is not None
    os.kill(worker.popen.pid, number)
    assert is_gone(worker.popen.pid)


def is_gone(pid: int) -> bool:
    """Return whether a process ends within 10 s: a killed one takes a moment on a busy machine."""
    deadline = time.monotonic() + 10
    while supervisor.start_time(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    return supervisor.start_time(pid) is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_demo_starts_an_ended_process_again(worker: Process, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "SHORTEST_RUN_SECONDS", 0.0)
    said: list[str] = []
    stage = Stage(NobodyStops(), said.append, 18_000)  # type: ignore[arg-type]
    stage.processes.append(worker)
    first, before = children_of(worker, 1)[0], worker.record.read_text()
    stage.keep_running()
    assert not said, "it runs"
    end(worker, number)
    stage.keep_running()
    assert len(children_of(worker, 2)) == 2
    assert [line.split()[0] for line in said] == ["worker"]
    assert is_gone(first), "nothing of the first run is left"
    assert worker.record.read_text() != before
    assert worker.log.read_text().count("begins") == 2, "the log of the first run is kept"
    stage.check()


def test_demo_ends_when_a_process_ends_soon_after_its_start(worker: Process) -> None:
    children_of(worker, 1)
    end(worker, signal.SIGTERM)
    with pytest.raises(Failed, match="^worker "):
        worker.start_again_if_ended()
