"""A real replica, broken for real and rebuilt for real."""

import json

import pytest

from tests.stack import Stack, wait_for

from .host_state import follows, is_replicating, one, same_data_at_one_gtid

pytestmark = pytest.mark.services


@pytest.mark.runs("MariaDB 10.11", "xbstream")
def test_wiped_replica_is_rebuilt_under_load_with_the_same_data(stack: Stack) -> None:
    stack.lab.load_start(tps=100)
    stack.lab.break_host("replica-1", "wipe")
    stack.wait_for_facts("replica-1", answering=False)
    _, lines = stack.rebuild("replica-1")

    result = lines[-1]
    assert result["status"] == "succeeded"
    assert [step["state"] for step in result["steps"]] == ["done"] * len(result["steps"])
    assert follows(stack, "replica-1", "primary-1")
    assert is_replicating(stack, "replica-1")
    assert one(stack, "replica-1", "SELECT @@read_only AS r")["r"] == 1
    same_data_at_one_gtid(stack, "replica-1")
    [stream] = stack.rows("SELECT result FROM dbops_rebuildstep WHERE name = 'stream' ORDER BY id DESC LIMIT 1")
    assert json.loads(stream["result"])["write_lock_seconds"] >= 0


def test_rebuild_leaves_nothing_on_the_source(stack: Stack) -> None:
    rebuild = stack.rows("SELECT * FROM dbops_rebuild ORDER BY id DESC LIMIT 1")[0]
    source = stack.lab.host("backup-1")
    assert rebuild["uid"] not in (source.folder / "authorized_keys").read_text()
    run = source.folder / "dbops" / "rebuilds" / rebuild["uid"]
    assert not (run / "backup.cnf").exists()
    wait_for("the guard to end", lambda: (run / "jobs" / "guard" / "rc").exists(), 30)
    assert is_replicating(stack, "backup-1")
    assert stack.rows("SELECT * FROM dbops_hold") == []


def test_secrets_are_stored_encrypted(stack: Stack) -> None:
    secrets = json.loads((stack.lab.folder / "secrets.json").read_text())
    dump = (stack.folder / "dbops.sqlite3").read_bytes()
    for log in stack.folder.glob("*.log"):
        dump += log.read_bytes()
    leaked = [name for name, value in secrets.items() if isinstance(value, str) and value.encode() in dump]
    assert leaked == []


def test_audit_log_has_requester_and_end(stack: Stack) -> None:
    actions = [
        row["action"]
        for row in stack.rows(
            "SELECT action FROM dbops_auditentry WHERE subject = 'replica-1' AND action LIKE 'rebuild.%' ORDER BY id"
        )
    ]
    assert actions[-3:] == ["rebuild.requested", "rebuild.started", "rebuild.succeeded"]
