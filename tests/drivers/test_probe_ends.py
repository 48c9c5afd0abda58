"""A probe ends also where its programs vanish while it runs, as in an upgrade: a loop that waits for one would keep the host busy."""

import subprocess
from pathlib import Path

import pytest

from dbops.drivers.probe_host import SCRIPT
from dbops.engine.hosts.scripts import load

#: Needed in the first place: what the loops call is missing.
EMPTY = {"PATH": "/nonexistent"}


def run(shell: str, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shell, "-c", script, "dbops", *arguments],
        env=EMPTY,
        input="",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.mark.parametrize("path", ["/srv/data/mysql", "/", "srv", "", "./x/"])
def test_way_up_ends_without_programs(path: str) -> None:
    found = run("/bin/sh", load("exchangeable") + '\nexchangeable_at "$1"', path)
    assert (found.returncode, found.stdout) == (0, path), "without a look, it counts as exchangeable"
    assert run("/bin/bash", load("common") + '\nexisting_above "$1"', path).returncode == 0


def test_probe_ends_without_programs(tmp_path: Path) -> None:
    hidden = SCRIPT.replace("PATH=${PATH:-/usr/bin:/bin}:/usr/local/bin", "PATH=/nonexistent:/usr/local/nonexistent", 1)
    assert hidden != SCRIPT
    run("/bin/sh", hidden, str(tmp_path / "missing" / "data"), "/etc/mysql/my.cnf", "2", "", "", "", "")
