"""After a rebuild that did not succeed: the old data goes back and serves, or what is left is done with the copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.hosts import LabHost
from tests.faults.injectors import tools
from tests.said import names
from tests.slow_process import braked, worker_of
from tests.stack import Stack, wait_for

from .cancelling import at_step, cancelled_in
from .host_state import follows, is_replicating, one, same_data_at_one_gtid

pytestmark = pytest.mark.services


def cancelled_rebuild(stack: Stack, step: str) -> dict[str, Any]:
    with cancelled_in(stack, step):
        stack.wait_for_possible_plan("replica-1")
        status, lines = stack.rebuild("replica-1", check=False)
    assert (status, lines[-1]["status"]) == (3, "cancelled"), lines[-3:]
    return last_rebuild(stack)


def last_rebuild(stack: Stack) -> dict[str, Any]:
    return stack.rows("SELECT * FROM dbops_rebuild ORDER BY id DESC LIMIT 1")[0]


def beside_data(stack: Stack) -> list[str]:
    """The target's directory and what other rebuilds have moved aside."""
    return sorted(path.name for path in stack.lab.host("replica-1").folder.glob("data*"))


def cancel_at_work(stack: Stack, stage: str) -> None:
    target = stack.lab.host("replica-1")
    wait_for("the program of the step", lambda: worker_of(target, stage))
    stack.manage("rebuild", target.name, "--cancel")


@contextmanager
def held_preparation(target: LabHost) -> Iterator[None]:
    """Stop each preparation on this host at its begin."""
    tools.install(target)
    tools.order(target, "is held", "prepare")
    try:
        yield
    finally:
        tools.remove(target)


def commands_of(stack: Stack, rebuild: dict[str, Any]) -> list[str]:
    return [
        row["key"] for row in stack.rows("SELECT key FROM dbops_executedcommand WHERE rebuild_id = ?", rebuild["id"])
    ]


@pytest.mark.parametrize("step", ["stream", "prepare", "catch-up"])
def test_rollback_restores_and_serves_old_data(stack: Stack, step: str) -> None:
    one(stack, "primary-1", "CREATE TABLE IF NOT EXISTS sbtest.marked (step VARCHAR(20) PRIMARY KEY)")
    one(stack, "primary-1", f"REPLACE INTO sbtest.marked VALUES ('{step}')")
    target = stack.lab.host("replica-1")
    before, beside = target.data_dir.stat().st_ino, beside_data(stack)
    failed = cancelled_rebuild(stack, step)
    assert target.data_dir.stat().st_ino != before

    status, lines = stack.rebuild("replica-1", "--roll-back")
    assert (status, lines[-1]["status"]) == (0, "succeeded")
    primary = stack.lab.host("primary-1")
    assert names(lines[-1]["outcome"], f"{primary.address}:3306")
    assert target.data_dir.stat().st_ino == before
    assert beside_data(stack) == beside
    wait_for("replication", lambda: is_replicating(stack, "replica-1"), 60)
    same_data_at_one_gtid(stack, "replica-1")
    assert last_rebuild(stack)["follows_id"] == failed["id"]
    assert stack.rows("SELECT * FROM dbops_hold") == []

    # and once more is refused: there is nothing to put back
    assert stack.rebuild("replica-1", "--roll-back", check=False)[0] == 2


@pytest.mark.parametrize("step", ["set-ownership", "start", "catch-up", "repoint", "certify", "verify"])
def test_retry_continues_with_the_copy(stack: Stack, step: str) -> None:
    beside = beside_data(stack)
    failed = cancelled_rebuild(stack, step)
    status, lines = stack.rebuild("replica-1", "--resume")
    assert (status, lines[-1]["status"]) == (0, "succeeded")
    retried = last_rebuild(stack)
    assert retried["follows_id"] == failed["id"]
    assert "stream" not in commands_of(stack, retried), "no byte is sent again"
    wait_for("replication", lambda: is_replicating(stack, "replica-1"), 60)
    same_data_at_one_gtid(stack, "replica-1")
    assert beside_data(stack) == beside


def test_retry_is_refused_with_half_a_copy(stack: Stack) -> None:
    stack.wait_for_possible_plan("replica-1")
    with braked(stack.lab.host("replica-1"), share=0):
        is_cancelled_and_not_retried(stack, "stream", "stream/unpack")


def test_retry_is_refused_after_a_started_preparation(stack: Stack) -> None:
    with held_preparation(stack.lab.host("replica-1")):
        stack.wait_for_possible_plan("replica-1")
        is_cancelled_and_not_retried(stack, "prepare", "prepare/prepare")


def is_cancelled_and_not_retried(stack: Stack, step: str, stage: str) -> None:
    with at_step(stack, step, lambda: cancel_at_work(stack, stage)):
        assert stack.rebuild("replica-1", check=False)[0] == 3
    status, lines = stack.rebuild("replica-1", "--resume", check=False)
    assert status == 2, lines
    assert lines[-1]["error"]["code"] == "rebuild.no_follow_up"
    assert stack.rebuild("replica-1", "--roll-back")[0] == 0


def test_rollback_refuses_other_data(stack: Stack) -> None:
    failed = cancelled_rebuild(stack, "prepare")
    target = stack.lab.host("replica-1")
    aside = target.data_dir.with_name(f"data.dbops-old-{failed['uid']}")
    hidden = aside.with_name("hidden")
    aside.rename(hidden)
    aside.mkdir()
    status, lines = stack.rebuild("replica-1", "--roll-back", check=False)
    assert (status, lines[-1]["error"]["code"]) == (1, "old.not_found")
    aside.rmdir()
    hidden.rename(aside)
    assert stack.rebuild("replica-1", "--roll-back")[0] == 0
    wait_for("replication", lambda: is_replicating(stack, "replica-1"), 60)


def test_follow_ups_are_refused_when_the_copy_is_writable(stack: Stack) -> None:
    """The half-finished replica was promoted to a primary: neither roll back nor resume may touch it."""
    cancelled_rebuild(stack, "repoint")
    one(stack, "replica-1", "SET GLOBAL read_only = 0")
    pid = stack.lab.host("replica-1").server_pid()
    status, lines = stack.rebuild("replica-1", "--roll-back", check=False)
    assert (status, lines[-1]["error"]["code"]) == (1, "host.refused")
    assert "read_only = 0" in lines[-1]["error"]["cause"]
    status, lines = stack.rebuild("replica-1", "--resume", check=False)
    assert (status, lines[-1]["status"]) == (1, "failed")
    assert "accepts writes" in lines[-1]["error"]["cause"]
    assert stack.lab.host("replica-1").server_pid() == pid
    one(stack, "replica-1", "SET GLOBAL read_only = 1")
    assert stack.rebuild("replica-1", "--roll-back")[0] == 0


def test_failover_during_the_rebuild_never_repoints_to_the_old_primary(stack: Stack) -> None:
    """The old primary is read-only by the time the copy would be pointed to it; when the roles are right again, the rebuild continues."""
    stack.wait_for_possible_plan("replica-1")
    with at_step(stack, "stream", lambda: one(stack, "primary-1", "SET GLOBAL read_only = 1")):
        status, lines = stack.rebuild("replica-1", check=False)
    assert (status, lines[-1]["error"]["code"]) == (1, "repoint.not_primary")
    assert follows(stack, "replica-1", "backup-1")
    one(stack, "primary-1", "SET GLOBAL read_only = 0")
    stack.wait_for_facts("primary-1")
    status, lines = stack.rebuild("replica-1", "--resume")
    assert "stream" not in commands_of(stack, last_rebuild(stack))
    assert follows(stack, "replica-1", "primary-1")
