"""One real rebuild with the dashboard on PostgreSQL, and one on MariaDB; its worker is killed in the middle."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.host_state import rebuild_and, same_data_at_one_gtid, source_is_given_back
from tests.networks import free_network
from tests.servers import Server, wanted_kinds
from tests.stack import Stack, running_stack

pytestmark = [pytest.mark.services, pytest.mark.faults]

KINDS = [kind for kind in wanted_kinds() if kind != "sqlite"]


def kill_the_worker(stack: Stack) -> bool:
    """Kill the worker with all of its processes, and start another."""
    process = stack.processes.pop("worker")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    stack.start("worker")
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_rebuild_survives_its_worker(kind: str, servers: Callable[[str], Server]) -> None:
    server = servers(kind)
    url = server.create("dbops_rebuild")
    with running_stack(free_network(), web=False, database_url=url) as stack:
        stack.lab.load_start(tps=100)
        stack.lab.break_host("replica-1", "wipe")
        stack.wait_for_facts("replica-1", answering=False)
        status, rebuild = rebuild_and(stack, "replica-1", "stream", lambda: kill_the_worker(stack))
        assert (status, rebuild["status"]) == (0, "succeeded"), stack.state_of_rebuilds()
        assert stack.rows("SELECT 1 FROM dbops_rebuildevent WHERE text LIKE 'Reattached after%'")
        streams = stack.rows(
            "SELECT * FROM dbops_executedcommand WHERE step = ? AND rebuild_id = ?", "stream", rebuild["id"]
        )
        assert len({row["text"] for row in streams if "mbstream" in row["text"]}) <= 1
        source_is_given_back(stack, rebuild["uid"])
        same_data_at_one_gtid(stack, "replica-1")
        assert not (stack.folder / "dbops.sqlite3").exists()
        assert no_secret_in(dump_of(server, url), stack)


def dump_of(server: Server, url: str) -> bytes:
    """Return what a backup of the dashboard's database holds."""
    if server.kind == "postgresql":
        words: list[str | Path] = ["/usr/bin/pg_dump", url]
    else:
        words = ["mariadb-dump", "--no-defaults", f"--socket={server.folder / 'socket'}", "dbops_rebuild"]
    return subprocess.run(words, capture_output=True, check=True).stdout


def no_secret_in(dump: bytes, stack: Stack) -> bool:
    secrets = json.loads((stack.lab.folder / "secrets.json").read_text()).values()
    assert dump
    assert secrets
    return not any(secret.encode() in dump for secret in secrets)
