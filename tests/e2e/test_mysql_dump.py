"""A MySQL replica loaded from a dump, for real: backed up under writes, while the server that made it is down."""

from collections.abc import Iterator

import pytest

from lab.unpacked import why_no_mysql
from tests.stack import Stack, running_stack, wait_for

from .host_state import is_replicating, last_rebuild, one, processes_of, replicate_again, same_data_at_one_gtid
from .settings import own_settings, relaxed_and_put_back, values_of
from .test_managed_backup import SOURCE, back_up, make_schedule

pytestmark = [pytest.mark.services, pytest.mark.skipif(bool(why_no_mysql()), reason=why_no_mysql() or "MySQL is here")]
TARGET = "replica-1"
#: Unusual values.
OWN = {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "7"}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(web=False, flavor="mysql") as running:
        make_schedule(running, "statements", "dump")
        yield running


#: Without them: a failed dump, an error in a dump that ends with 0, and a dump that lacks objects.
@pytest.mark.parametrize("privilege", ["EVENT", "PROCESS", "TRIGGER"])
def test_dump_is_refused_where_its_account_lacks_a_privilege(stack: Stack, privilege: str) -> None:
    account = f"'{stack.lab.accounts['admin'].user}'@'localhost'"
    one(stack, "primary-1", f"REVOKE {privilege} ON *.* FROM {account}")
    try:
        goal = one(stack, "primary-1", "SELECT @@GLOBAL.gtid_executed AS gtid")["gtid"]
        one(stack, SOURCE, f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{goal}', 30) AS reached")
        status, result = back_up(stack, "statements")
    finally:
        one(stack, "primary-1", f"GRANT {privilege} ON *.* TO {account}")
    assert status != 0, result
    assert result["error"]["code"] == "backup.dump_account"
    assert privilege in result["error"]["cause"]


@pytest.mark.runs("MySQL 9.7", "catch-up")
@pytest.mark.runs("MySQL 9.7", "dump")
def test_replica_is_rebuilt_from_a_dump_without_its_server(stack: Stack) -> None:
    stack.lab.load_start(tps=50)
    status, result = back_up(stack, "statements")
    assert status == 0, result
    stack.lab.load_stop()
    one(stack, "primary-1", "CREATE TABLE sbtest.after_the_dump (id INT PRIMARY KEY) AS SELECT 4 AS id")
    source = stack.lab.host(SOURCE)
    source.stop_server()
    try:
        stack.wait_for_facts(SOURCE, answering=False)
        for name in ("primary-1", TARGET):
            stack.wait_for_facts(name)
        with own_settings(stack, TARGET, OWN):
            _, lines = stack.rebuild(TARGET, "--method", "dump")
        rebuild = last_rebuild(stack)
        assert (rebuild["method"], rebuild["status"]) == ("dump", "succeeded"), lines[-1]
    finally:
        source.start_server()
        replicate_again(stack, SOURCE)
    wait_for("it replicates", lambda: is_replicating(stack, TARGET))
    assert processes_of(rebuild["uid"]) == []
    assert stack.rows("SELECT * FROM dbops_hold") == []
    same_data_at_one_gtid(stack, TARGET)
    assert one(stack, TARGET, "SELECT id FROM sbtest.after_the_dump")["id"] == 4
    changed = relaxed_and_put_back(stack)
    assert changed["innodb_flush_log_at_trx_commit"] == ("2", "1")
    assert changed["sync_binlog"] == ("0", "7")
    assert changed["innodb_doublewrite"][0] == "DETECT_ONLY"
    found = values_of(stack, TARGET, *OWN, "innodb_doublewrite")
    assert found.pop("innodb_doublewrite") in ("ON", "DETECT_AND_RECOVER")
    assert found == OWN
    uuids = {one(stack, name, "SELECT @@server_uuid AS u")["u"] for name in (TARGET, SOURCE, "primary-1")}
    assert len(uuids) == 3
