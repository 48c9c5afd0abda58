"""Everything with SSH accounts that may run nothing as root but the gates of the generated sudoers files."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stack import OPERATOR, Stack, wait_for
from tests.sudo_account import path_in, through_gates, why_not

from .host_state import is_replicating, one, same_data_at_one_gtid
from .load_testing import request_of, run_load_test, unchanged
from .test_connection_tests import ended
from .test_going_back import cancelled_rebuild
from .test_managed_backup import SOURCE, back_up, backup_stack
from .test_restore_tests import run_restore_test

pytestmark = [pytest.mark.services, pytest.mark.skipif(bool(why_not()), reason=why_not())]
TARGET = "replica-1"
TEST = f"""
from django.contrib.auth.models import User
from dbops.models import Host
from dbops.operations.connection_tests import request_ssh
print(request_ssh(actor=User.objects.get(username="{OPERATOR}"), host=Host.objects.get(name="{TARGET}")).pk)
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with backup_stack(1, files="physical", statements="dump") as running, through_gates(running):
        for host in running.lab.hosts:  # the hosts were imported before they had their gates
            running.wait_for_facts(host.name, answering=True)
        yield running


def ssh_user(stack: Stack) -> str:
    return str(stack.rows("SELECT ssh_user FROM dbops_host WHERE name = ?", TARGET)[0]["ssh_user"])


def host_problem(stack: Stack) -> dict[str, Any] | None:
    problem: dict[str, Any] | None = stack.wait_for_facts(TARGET, answering=True)["host_problem"]
    return problem


def test_probe_reads_all_of_the_host(stack: Stack) -> None:
    facts = stack.wait_for_facts(TARGET, answering=True)
    assert facts["host_problem"] is None
    assert facts["host"]["local_address"] == stack.lab.host(TARGET).address
    assert facts["datadir"]["server_pids"] == [stack.lab.host(TARGET).server_pid()]


def test_connection_test_passes(stack: Stack) -> None:
    found = ended(stack, int(stack.manage("shell", "--no-imports", "-c", TEST).stdout))
    assert found["status"] == "passed", found


def test_account_may_run_nothing_else(stack: Stack) -> None:
    for command in (["id"], ["bash", "-c", "id"], ["systemctl", "stop", "mariadb"]):
        words = ["runuser", "-u", ssh_user(stack), "--", "sudo", "-n", *command]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, ""), command


@pytest.mark.runs("MariaDB 10.11", "xbstream")
def test_wiped_replica_is_rebuilt_under_load(stack: Stack) -> None:
    stack.lab.load_start(tps=50)
    stack.lab.break_host(TARGET, "wipe")
    stack.wait_for_facts(TARGET, answering=False)
    stack.wait_for_possible_plan(TARGET)
    _, lines = stack.rebuild(TARGET)
    assert lines[-1]["status"] == "succeeded"
    stack.lab.load_stop()
    same_data_at_one_gtid(stack, TARGET)
    [row] = stack.rows("SELECT uid FROM dbops_rebuild ORDER BY id DESC LIMIT 1")
    assert row["uid"] not in stack.lab.host(SOURCE).sshd.authorized_keys.read_text()
    assert is_replicating(stack, SOURCE)


def test_rollback_restores_and_serves_old_data(stack: Stack) -> None:
    target = stack.lab.host(TARGET)
    before = target.data_dir.stat().st_ino
    cancelled_rebuild(stack, "stream")
    assert target.data_dir.stat().st_ino != before
    status, lines = stack.rebuild(TARGET, "--roll-back")
    assert (status, lines[-1]["status"]) == (0, "succeeded"), lines[-3:]
    assert target.data_dir.stat().st_ino == before
    wait_for("replication", lambda: is_replicating(stack, TARGET), 60)


@pytest.mark.parametrize("schedule", ["files", "statements"])
def test_managed_backup_and_its_restore_test_succeed(stack: Stack, schedule: str) -> None:
    status, result = back_up(stack, schedule)
    assert (status, result["status"]) == (0, "succeeded"), result
    if schedule == "files":
        status, result = run_restore_test(stack, int(result["backup_run"]))
        assert (status, result["status"]) == (0, "succeeded"), result


def test_outdated_gate_is_refused_before_anything_is_stopped(stack: Stack) -> None:
    host = stack.lab.host(TARGET)
    pid = host.server_pid()
    stack.wait_for_possible_plan(TARGET)
    path = Path(path_in(stack.manage("host", "sudoers", TARGET).stdout))
    good = path.read_text()
    path.write_text(good.replace("version=1\n", "version=0\n"))
    try:
        stack.wait_for_probe(
            "the refusal", lambda: (host_problem(stack) or {}).get("code") == "ssh.gate_refused", TARGET
        )
        plan = stack.plan(TARGET)
        assert not plan["is_possible"]
        assert "target.host" in {item["code"] for item in plan["findings"] if item["severity"] == "refusal"}
        found = ended(stack, int(stack.manage("shell", "--no-imports", "-c", TEST).stdout))
        assert (found["status"], found["error"]["code"]) == ("failed", "ssh.gate_refused")
    finally:
        path.write_text(good)
    assert host.server_pid() == pid
    stack.wait_for_possible_plan(TARGET)
    assert one(stack, TARGET, "SELECT 1 AS one")["one"] == 1


def test_load_generator_on_another_host(stack: Stack) -> None:
    request = request_of(stack, generator_host=TARGET)
    with unchanged(stack):
        status, result = run_load_test(stack, request)
    assert (status, result["error"]) == (0, {}), result["error"]
    assert result["report"]["Total"]["QueryCount"] > 10
