"""What happens to a rebuild in its stream and its preparation: refused logins, a killed transport."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.hosts import LabHost
from lab.sshd import make_key
from tests.e2e.cancelling import ask_to_cancel
from tests.e2e.host_state import same_data_at_one_gtid, source_is_given_back
from tests.faults.injectors.hosts import run_directory
from tests.stack import Stack, wait_for

from .held import (
    SOURCE,
    TARGET,
    held_preparations,
    held_stream,
    holders,
    leave_working_replica,
    row_of,
    wait_for_end,
    wait_for_held_preparation,
    warnings,
    works,
)

pytestmark = pytest.mark.services
#: The code before ended such a rebuild within a few seconds.
OBSERVED_SECONDS = 10.0


@pytest.fixture(autouse=True)
def replica_again(stack: Stack) -> Iterator[None]:
    """End each test with a replica that replicates."""
    yield
    leave_working_replica(stack)


@contextmanager
def another_host_key(host: LabHost) -> Iterator[str]:
    """Let the host's sshd show a new key, and end the open sessions; yield the code of what dbops finds."""
    key, public = host.sshd.host_key_file, host.sshd.host_key_file.with_name(f"{host.sshd.host_key_file.name}.pub")
    before = [(file, file.read_bytes()) for file in (key, public)]
    host.sshd.stop()
    for file, _ in before:
        file.unlink()
    make_key(key, "another host")
    host.sshd.start()
    try:
        yield "ssh.host_key_changed"
    finally:
        host.sshd.stop()
        for file, content in before:
            file.write_bytes(content)
        host.sshd.start()


@contextmanager
def no_authorized_keys(host: LabHost) -> Iterator[str]:
    """Refuse every login, and end the open sessions; yield the code of what dbops finds."""
    file = host.sshd.authorized_keys
    away = file.rename(file.with_suffix(".away"))
    host.sshd.stop()
    host.sshd.start()
    try:
        yield "ssh.auth_failed"
    finally:
        away.rename(file)


def waits_and_keeps_its_holds(stack: Stack, key: int, code: str) -> None:
    wait_for("a warning for a person", lambda: any(f"[{code}]" in text for text in warnings(stack, key)), 30)
    assert row_of(stack, key)["unreachable_since"]
    until = time.monotonic() + OBSERVED_SECONDS
    while time.monotonic() < until:
        assert row_of(stack, key)["status"] in ("running", "lost")
        assert holders(stack, key) == {SOURCE, TARGET}
        time.sleep(0.5)


@pytest.mark.situation("F5", "the rebuild waits with its holds, says why, and succeeds when it can log in again")
def test_rebuild_waits_while_the_target_does_not_let_dbops_in(stack: Stack) -> None:
    host = stack.lab.host(TARGET)
    with held_preparations(stack):
        with held_stream(stack) as key, another_host_key(host) as code:
            waits_and_keeps_its_holds(stack, key, code)
        wait_for_held_preparation(stack, key)
        with no_authorized_keys(host) as code:
            waits_and_keeps_its_holds(stack, key, code)
    row = wait_for_end(stack, key)
    assert row["status"] == "succeeded", row["error"]
    same_data_at_one_gtid(stack, TARGET)
    source_is_given_back(stack, row["uid"])


@pytest.mark.situation("G6", "reported as a killed program, not as the network")
def test_killed_transport_is_no_network_problem(stack: Stack) -> None:
    with held_stream(stack) as key:
        uid = row_of(stack, key)["uid"]
        file = run_directory(stack.lab.host(TARGET), uid) / "jobs" / "stream" / "pid.transport"
        os.kill(int(file.read_text()), signal.SIGKILL)
    row = wait_for_end(stack, key)
    assert (row["status"], json.loads(row["error"])["code"]) == ("failed", "stream.killed")
    source_is_given_back(stack, uid)


@contextmanager
def answering_for(stack: Stack, other: str, name: str) -> Iterator[None]:
    """Let the server of another host answer at this host's address, as after a swap of addresses."""
    host, wanted = stack.lab.host(other), stack.lab.host(name)
    host.stop_server()
    host.start_server([f"--bind-address={wanted.address}"])
    try:
        yield
    finally:
        host.stop_server()
        host.start_server()


def identity_of(stack: Stack, name: str) -> dict[str, Any]:
    sql = "SELECT d.identity, d.noted_at FROM dbops_serveridentity d JOIN dbops_instance i ON i.id = d.instance_id"
    return stack.rows(f"{sql} WHERE i.name = ?", name)[0]


@pytest.mark.situation(
    "G7", "the server behind a swapped address is not learned, and the right one is accepted again at once"
)
def test_wrong_server_is_not_learned_after_a_failed_rebuild(stack: Stack) -> None:
    with held_stream(stack) as key:
        before = identity_of(stack, TARGET)
        ask_to_cancel(stack, key)
        assert wait_for_end(stack, key)["status"] == "cancelled"
    with answering_for(stack, SOURCE, TARGET):
        facts = stack.wait_for_facts(TARGET, answering=True)
        assert facts["server"]["server_id"] == stack.lab.host(SOURCE).server_id
        stack.wait_for_facts(TARGET, answering=True)  # a second probe confirms what a first one finds
        assert identity_of(stack, TARGET) == before
    for name in (SOURCE, TARGET):
        stack.wait_for_facts(name)
    stack.rebuild(TARGET, "--roll-back")
    wait_for("replication", lambda: works(stack), 60)
    stack.wait_for_possible_plan(TARGET)
