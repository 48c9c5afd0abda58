"""The example playbook, run against a running dashboard."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.client.test_dbops import END, ROOT, Dashboard
from tests.stack import wait_for

PLAYBOOK = ROOT / "contrib" / "ansible" / "rebuild.yml"
BIN = ROOT / ".venv" / "bin"


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    with closing(Dashboard(tmp_path_factory.mktemp("dashboard"))) as found:
        yield found


def play(dashboard: Dashboard, folder: Path, *words: str) -> "subprocess.Popen[str]":
    given = {
        "dbops_url": f"http://127.0.0.1:{dashboard.port}",
        "dbops_token_file": str(dashboard.folder / "olga.token"),
        "dbops_poll_seconds": "1",
        "dbops_wait_minutes": "2",
        "target": "replica-1",
        "reason": "disk_replaced",
    }
    extra = [word for name, value in given.items() for word in ("-e", f"{name}={value}")]
    environment = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    command = [str(BIN / "ansible-playbook"), "-vv", *words, *extra, str(PLAYBOOK)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL
    )


def test_playbook_is_valid(dashboard: Dashboard, tmp_path: Path) -> None:
    done = play(dashboard, tmp_path, "--syntax-check")
    out, _ = done.communicate(timeout=120)
    assert done.returncode == 0, out


@pytest.mark.parametrize(("status", "exit_status"), [("succeeded", 0), ("failed", 2)])
def test_playbook_requests_a_rebuild_and_waits(
    dashboard: Dashboard, tmp_path: Path, status: str, exit_status: int
) -> None:
    running = play(dashboard, tmp_path)
    (rebuild,) = wait_for("the request", lambda: dashboard.json("rebuilds", "--status", "queued"), 120)
    assert (rebuild["target"], rebuild["requested_by"]) == ("replica-1", "olga")
    dashboard.python(END.format(number=rebuild["id"], status=status))
    out, _ = running.communicate(timeout=120)
    assert running.returncode == exit_status, out
    assert dashboard.rows["olga"] not in out
