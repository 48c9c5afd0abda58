"""The same on MySQL, for real, where its server and XtraBackup are installed (some distributions have both as packages)."""

import shutil

import pytest

from tests.stack import running_stack

from .host_state import one

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(
        not (shutil.which("mysqld") and shutil.which("xtrabackup") and shutil.which("xbstream")),
        reason="needs mysqld, xtrabackup and xbstream on PATH; this distribution has no packages of them",
    ),
]


def test_mysql_replica_is_rebuilt() -> None:
    with running_stack(web=False, flavor="mysql") as stack:
        stack.lab.break_host("replica-1", "wipe")
        stack.wait_for_facts("replica-1", answering=False)
        _, lines = stack.rebuild("replica-1")
        assert lines[-1]["status"] == "succeeded"
        goal = one(stack, "primary-1", "SELECT @@GLOBAL.gtid_executed AS gtid")["gtid"]
        reached = one(stack, "replica-1", f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{goal}', 30) AS reached")["reached"]
        assert reached == 0
        assert one(stack, "replica-1", "SELECT @@server_uuid AS u") != one(
            stack, "backup-1", "SELECT @@server_uuid AS u"
        )
