"""Pause of the source and its guard, run as real processes; the SQL client is a stand-in that records statements."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dbops.engine.hosts.scripts import load

PAUSE, GUARD = load("release", "pause"), load("release", "guard")
RUN = "0123456789abcdef"
CLIENT = (
    '#!/bin/bash\nwhile [ "$1" != -e ]; do shift; done\n[ "$2" = "SELECT 1" ] || echo "$2" >>"$(dirname "$0")/said"\n'
)


def wait_until(what: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


@dataclass
class Source:
    """A run directory on the source. ``said`` are the statements that its server received."""

    root: Path
    guards: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.root / "client").write_text(CLIENT)
        (self.root / "client").chmod(0o755)
        (self.root / "keys").write_text(f"ssh-ed25519 AAAA dbops-{RUN}\n")

    @property
    def said(self) -> list[str]:
        file = self.root / "said"
        return file.read_text().split() if file.exists() else []

    def guard(self, *, patience: int = 60, script: str = GUARD) -> "subprocess.Popen[bytes]":
        words = [RUN, self.root / "keys", "root", self.root / "client", "/no/socket", "START", patience, patience]
        environment = {**os.environ, "DBOPS_RUN_DIR": str(self.root), "DBOPS_JOB_DIR": str(self.root)}
        guard = subprocess.Popen(["bash", "-c", script, "guard", *map(str, words)], env=environment)
        self.guards.append(guard)
        return guard

    def pause(self, client: str = "", place: str = "/no/socket", script: str = PAUSE) -> int:
        command = ["bash", "-c", script, "pause", client or str(self.root / "client"), place, "STOP"]
        return subprocess.run(command, cwd=self.root, stdin=subprocess.DEVNULL, check=False).returncode

    def is_left_stopped(self) -> bool:
        return bool(self.said) and self.said[-1] == "STOP"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    made = Source(tmp_path)
    yield made
    for guard in made.guards:
        guard.send_signal(signal.SIGCONT)
        guard.kill()
        guard.wait()


def test_pause_is_refused_without_a_guard(source: Source) -> None:
    assert source.pause(script=PAUSE.replace("seq 50", "seq 2")) == 65
    assert source.said == []


def test_pause_waits_for_a_guard_that_replaces_a_dead_one(source: Source) -> None:
    (source.root / "guard.pid").write_text("4194304 1\n")
    source.guard(script="sleep 1\n" + GUARD)
    assert source.pause() == 0
    assert source.said == ["STOP"]


def test_guard_resumes_the_source_and_removes_the_key_without_heartbeat(source: Source) -> None:
    guard = source.guard(patience=1)
    assert source.pause() == 0
    assert guard.wait(60) == 0
    assert source.said == ["STOP", "START"]
    assert (source.root / "keys").read_text() == ""


def test_guard_retries_removing_a_locked_key(source: Source) -> None:
    lock = subprocess.Popen(["flock", str(source.root / ".dbops-keys.lock"), "sleep", "14"])
    guard = source.guard(patience=1)
    try:
        assert guard.wait(60) == 0
    finally:
        lock.wait()
    assert (source.root / "keys").read_text() == ""


def pause_while_the_guard_gives_up(source: Source, script: str) -> bool:
    """Let the guard decide to give the source back, hold it there, pause, and let it continue. Return whether it is left stopped."""
    # it waits after its last check for a pause
    held = GUARD.replace('echo "The source is released."', "touch at-its-end; while [ -e hold ]; do sleep 0.05; done")
    assert held != GUARD
    (source.root / "hold").touch()
    guard = source.guard(patience=0, script=held)
    assert wait_until((source.root / "at-its-end").exists)
    source.pause(script=script)
    (source.root / "hold").unlink()
    guard.wait(60)
    return source.is_left_stopped()


def test_pause_is_refused_when_the_guard_is_giving_up(source: Source) -> None:
    assert not pause_while_the_guard_gives_up(source, PAUSE)


def test_weakened_pause_is_detected(source: Source) -> None:
    """The negative control."""
    script = PAUSE.replace("[ -e given_back ] || [ -e release ] ||", "")
    assert script != PAUSE
    assert pause_while_the_guard_gives_up(source, script)


def test_pause_times_out_when_the_server_hangs(source: Source) -> None:
    """The real client program, at a socket without an answer: it must not wait longer than the guard does."""
    source.guard()
    place = source.root / "silent.sock"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(place))
        silent.listen(5)
        script = PAUSE.replace('-e "SELECT 1" >/dev/null', "--version >/dev/null")  # it hangs only after that
        began = time.monotonic()
        assert source.pause("mariadb", str(place), script=script) not in (0, 65)
    assert 5 < time.monotonic() - began < 40
