"""Tests of the stream on real hosts: what they leave when all goes well, when the way is closed, and when their worker is killed."""

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from dbops.engine.hosts.stream_test import GUARD_SECONDS
from dbops.worker.connection_tests.runner import RUNS_AT_MOST_SECONDS
from tests.stack import OPERATOR, Stack, running_stack, wait_for

from .host_state import nothing_changes, processes_of

pytestmark = pytest.mark.services

SOURCE, TARGET = "backup-1", "replica-1"
ASK = f"""
from django.contrib.auth.models import User
from dbops.models import Host
from dbops.operations.connection_tests import request_stream
hosts = [Host.objects.get(name=name) for name in ("{SOURCE}", "{TARGET}")]
print(request_stream(actor=User.objects.get(username="{OPERATOR}"), source=hosts[0], target=hosts[1]).pk)
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A lab of its own: its worker is killed."""
    with running_stack(web=False) as running:
        yield running


def ask(stack: Stack) -> int:
    return int(stack.manage("shell", "--no-imports", "-c", ASK).stdout)


def row(stack: Stack, pk: int) -> dict[str, Any]:
    found = stack.rows("SELECT * FROM dbops_connectiontest WHERE id = ?", pk)[0]
    return {**found, "result": json.loads(found["result"]), "error": json.loads(found["error"])}


def ended(stack: Stack, pk: int, seconds: float = 40) -> dict[str, Any]:
    over = ("passed", "failed", "unknown")
    wait_for("the end of the test", lambda: row(stack, pk)["status"] in over, seconds)
    return row(stack, pk)


def keys(stack: Stack) -> str:
    return (stack.lab.host(SOURCE).folder / "authorized_keys").read_text()


def test_stream_test_uses_the_rebuild_path_and_leaves_nothing(stack: Stack) -> None:
    with nothing_changes(stack):
        found = ended(stack, ask(stack))
    assert found["status"] == "passed", found
    assert found["result"]["bytes_per_second"] > 1_000_000
    assert 1.5 < found["result"]["seconds"] < 20
    rates = found["result"]["rates"]
    assert list(rates) == found["result"]["ciphers_offered"].split(",")
    assert max(rates, key=lambda cipher: rates[cipher]) == found["result"]["cipher"]
    assert processes_of(found["uid"]) == []


def test_stream_test_fails_with_the_ssh_error_and_leaves_nothing(stack: Stack) -> None:
    stack.write("UPDATE dbops_host SET stream_address = '127.0.0.1' WHERE name = ?", SOURCE)
    try:
        with nothing_changes(stack):
            found = ended(stack, ask(stack))
    finally:
        stack.write("UPDATE dbops_host SET stream_address = '' WHERE name = ?", SOURCE)
    assert (found["status"], found["error"]["code"]) == ("failed", "test.no_stream")
    assert "ssh:" in found["error"]["cause"]


def test_stream_test_of_a_killed_worker_leaves_nothing(stack: Stack) -> None:
    before = keys(stack)
    pk = ask(stack)
    uid = row(stack, pk)["uid"]
    wait_for("the key of the test", lambda: uid in keys(stack), 60)
    stack.stop("worker", signal.SIGKILL)
    wait_for("the key to be gone", lambda: keys(stack) == before, GUARD_SECONDS + 15)
    wait_for("its processes to be gone", lambda: processes_of(uid) == [], 30)
    run = stack.lab.host(TARGET).work_dir / "rebuilds" / uid
    assert not (run / "key").exists()
    stack.start("worker")
    found = ended(stack, pk, RUNS_AT_MOST_SECONDS)
    assert (found["status"], found["error"]["code"], found["slot"]) == ("unknown", "test.unknown", None)
    assert ended(stack, ask(stack))["status"] == "passed"
