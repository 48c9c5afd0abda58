"""A cluster whose primary is a member of Group Replication: its replicas are rebuilt, its members neither read nor replaced."""

from collections.abc import Iterator

import pytest

from lab.unpacked import why_no_mysql
from tests.e2e.host_state import checksums, one
from tests.e2e.test_managed_backup import back_up, make_schedule
from tests.networks import free_port
from tests.stack import Stack, running_stack, wait_for

from .test_quiet_start import configured

pytestmark = [pytest.mark.services, pytest.mark.skipif(bool(why_no_mysql()), reason=why_no_mysql() or "MySQL is here")]
PRIMARY, SOURCE, TARGET = "primary-1", "backup-1", "replica-1"
NAME = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(web=False, flavor="mysql", size="16M") as running:
        # the group's layer takes only addresses that an interface has
        local = f"127.0.0.1:{free_port()}"
        options = {
            "plugin_load_add": "auth_socket.so;group_replication.so",
            "loose_group_replication_group_name": NAME,
            "loose_group_replication_local_address": local,
            "loose_group_replication_group_seeds": local,
            "loose_group_replication_start_on_boot": "OFF",
        }
        with configured(running, PRIMARY, **options):
            for statement in (
                "SET GLOBAL group_replication_bootstrap_group = ON",
                "START GROUP_REPLICATION",
                "SET GLOBAL group_replication_bootstrap_group = OFF",
                "CREATE DATABASE grouped",
                "CREATE TABLE grouped.t (id INT PRIMARY KEY)",
            ):
                one(running, PRIMARY, statement)
            yield running
            one(running, PRIMARY, "STOP GROUP_REPLICATION")


def refused(stack: Stack, target: str, *words: str) -> set[str]:
    return {item["code"] for item in stack.plan(target, *words)["findings"] if item["severity"] == "refusal"}


@pytest.mark.situation(
    "group replication", "a replica of a member is rebuilt; transactions of the group are not errant"
)
def test_replica_of_a_group_is_rebuilt_under_writes(stack: Stack) -> None:
    group = stack.wait_for_facts(PRIMARY)["server"]["kind"]["group"]
    assert (group["mechanism"], group["name"]) == ("Group Replication", NAME)
    assert (group["state"], group["role"], group["size"]) == ("ONLINE", "PRIMARY", 1)
    stack.lab.load_start(tps=20)
    try:
        plan = stack.wait_for_possible_plan(TARGET, "--method", "clone")
        assert {item["severity"] for item in plan["findings"] if item["code"] == "primary.group"} == {"ok"}
        stack.rebuild(TARGET, "--method", "clone")
    finally:
        stack.lab.load_stop()
    one(stack, PRIMARY, "INSERT INTO grouped.t VALUES (1)")
    wait_for("the row", lambda: one(stack, TARGET, "SELECT id FROM grouped.t") == {"id": 1})
    assert checksums(stack, TARGET) == checksums(stack, PRIMARY)
    [row] = [one(stack, TARGET, "SHOW REPLICA STATUS")]
    assert (row["Replica_IO_Running"], row["Replica_SQL_Running"]) == ("Yes", "Yes")
    assert row["Source_Host"] == stack.lab.host(PRIMARY).address


@pytest.mark.situation("group replication", "a dump of the member that is the primary becomes its replica")
def test_dump_of_a_group_primary_becomes_a_replica(stack: Stack) -> None:
    make_schedule(stack, "statements", "dump", PRIMARY)
    status, result = back_up(stack, "statements")
    assert status == 0, result
    one(stack, PRIMARY, "INSERT INTO grouped.t VALUES (2)")
    words = ("--source", PRIMARY, "--method", "dump")
    stack.wait_for_possible_plan(TARGET, *words)
    stack.rebuild(TARGET, *words)
    wait_for("the row", lambda: one(stack, TARGET, "SELECT id FROM grouped.t WHERE id = 2") == {"id": 2})


@pytest.mark.situation(
    "group replication", "a member is neither source nor target, also while the group is stopped on it"
)
def test_group_member_is_neither_read_nor_replaced(stack: Stack) -> None:
    stack.wait_for_facts(PRIMARY)
    assert "target.group" in refused(stack, PRIMARY, "--method", "clone")
    assert "source.group" in refused(stack, TARGET, "--source", PRIMARY, "--method", "clone")
    stack.lab.host(PRIMARY).stop_server()
    try:
        stack.wait_for_facts(PRIMARY, answering=False)
        assert "target.group" in refused(stack, PRIMARY, "--method", "clone")
    finally:
        stack.lab.host(PRIMARY).start_server()
    facts = stack.wait_for_facts(PRIMARY, answering=True)
    assert facts["server"]["kind"]["group"]["state"] == "OFFLINE"
    assert "target.group" in refused(stack, PRIMARY, "--method", "clone")
    one(stack, PRIMARY, "SET GLOBAL group_replication_bootstrap_group = ON")
    one(stack, PRIMARY, "START GROUP_REPLICATION")
    one(stack, PRIMARY, "SET GLOBAL group_replication_bootstrap_group = OFF")


@pytest.mark.situation("group replication", "a discovery names the group")
def test_discovery_names_the_group(stack: Stack) -> None:
    host = stack.lab.host(PRIMARY)
    cluster = stack.rows("SELECT name FROM dbops_cluster")[0]["name"]
    found = stack.manage("discover", f"{host.address}:{host.port}", "--cluster-accounts", cluster).stdout
    assert f"Group Replication group '{NAME}' (ONLINE PRIMARY, 1 member)" in found
    assert f"{host.address}:{host.port}" in found
