"""A cluster whose primary is a member of a Galera cluster: its replicas are rebuilt, its members neither read nor replaced."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.host_state import checksums, is_replicating, one
from tests.e2e.test_managed_backup import back_up, make_schedule
from tests.stack import Stack, running_stack, wait_for

from .test_quiet_start import configured

#: Of Debian's package galera-4, which script/test installs.
PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(not PROVIDER.exists(), reason=f"{PROVIDER} is not here: install galera-4"),
]
PRIMARY, SOURCE, TARGET = "primary-1", "backup-1", "replica-1"


def member_options(stack: Stack, name: str) -> dict[str, str]:
    """Return the options of a cluster of one server, which listens on its own address."""
    address = stack.lab.host(name).address
    return {
        "wsrep_on": "ON",
        "wsrep_provider": str(PROVIDER),
        "wsrep_cluster_address": "gcomm://",
        "wsrep_cluster_name": f"shop-{name}",
        "wsrep_node_address": address,
        "wsrep_provider_options": f'"gmcast.listen_addr=tcp://{address}:4567; gcache.size=16M"',
        "innodb_autoinc_lock_mode": "2",
    }


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with (
        running_stack(web=False, size="16M") as running,
        configured(running, PRIMARY, **member_options(running, PRIMARY)),
    ):
        wait_for("a member that takes statements", lambda: is_ready(running), 60)
        one(running, PRIMARY, "CREATE DATABASE galera")
        one(running, PRIMARY, "CREATE TABLE galera.t (id INT PRIMARY KEY)")
        yield running


def is_ready(stack: Stack) -> bool:
    """It answers before it takes statements (error 1047); this one is allowed."""
    return bool(one(stack, PRIMARY, "SHOW GLOBAL STATUS LIKE 'wsrep_ready'")["Value"] == "ON")


def refused(stack: Stack, target: str, *words: str) -> set[str]:
    return {item["code"] for item in stack.plan(target, *words)["findings"] if item["severity"] == "refusal"}


@pytest.mark.situation("galera", "a replica of a member is rebuilt, with a warning that it can follow no other member")
def test_replica_of_a_galera_member_is_rebuilt_under_writes(stack: Stack) -> None:
    group = stack.wait_for_facts(PRIMARY)["server"]["kind"]["group"]
    assert (group["mechanism"], group["name"], group["state"], group["size"]) == (
        "Galera",
        f"shop-{PRIMARY}",
        "Synced",
        1,
    )
    stack.lab.load_start(tps=20)
    try:
        plan = stack.wait_for_possible_plan(TARGET)
        assert "primary.group" in {item["code"] for item in plan["findings"] if item["severity"] == "warning"}
        stack.rebuild(TARGET)
    finally:
        stack.lab.load_stop()
    one(stack, PRIMARY, "INSERT INTO galera.t VALUES (1)")
    wait_for("the row", lambda: one(stack, TARGET, "SELECT id FROM galera.t") == {"id": 1})
    assert is_replicating(stack, TARGET)
    assert checksums(stack, TARGET) == checksums(stack, PRIMARY)
    assert one(stack, TARGET, "SELECT @@GLOBAL.wsrep_on AS it") == {"it": 0}
    assert not (stack.lab.host(TARGET).data_dir / "grastate.dat").exists()


@pytest.mark.situation("galera", "a backup of the member that is the primary becomes its replica")
def test_backup_of_a_galera_primary_becomes_a_replica(stack: Stack) -> None:
    make_schedule(stack, "files", "physical", PRIMARY)
    assert back_up(stack, "files")[0] == 0
    one(stack, PRIMARY, "INSERT INTO galera.t VALUES (2)")
    words = ("--source", PRIMARY, "--method", "archive")
    plan = stack.wait_for_possible_plan(TARGET, *words)
    assert {item["severity"] for item in plan["findings"] if item["code"] == "source.group"} == {"ok"}
    stack.rebuild(TARGET, *words)
    wait_for("the row", lambda: one(stack, TARGET, "SELECT id FROM galera.t WHERE id = 2") == {"id": 2})
    assert is_replicating(stack, TARGET)
    assert one(stack, TARGET, "SELECT @@GLOBAL.wsrep_on AS it") == {"it": 0}


@pytest.mark.situation("galera", "a member is neither source nor target, also while it is stopped")
def test_galera_member_is_neither_read_nor_replaced(stack: Stack) -> None:
    host = stack.lab.host(SOURCE)
    with configured(stack, SOURCE, **member_options(stack, SOURCE)):
        stack.wait_for_facts(SOURCE, answering=True)
        assert "source.group" in refused(stack, TARGET, "--source", SOURCE)
        assert "target.group" in refused(stack, SOURCE)
        host.stop_server()
        stack.wait_for_facts(SOURCE, answering=False)
        assert "target.group" in refused(stack, SOURCE)
    # its option file no longer makes it a member, but it was one when it was last read
    stack.wait_for_facts(SOURCE, answering=False)
    assert "target.group" in refused(stack, SOURCE)
    host.start_server()
    stack.wait_for_facts(SOURCE, answering=True)
    assert not {"target.group", "source.group"} & refused(stack, TARGET, "--source", SOURCE)
    assert "target.group" not in refused(stack, SOURCE)


@pytest.mark.situation("galera", "a discovery names the cluster")
def test_discovery_names_the_galera_cluster(stack: Stack) -> None:
    host = stack.lab.host(PRIMARY)
    cluster = stack.rows("SELECT name FROM dbops_cluster")[0]["name"]
    found = stack.manage("discover", f"{host.address}:{host.port}", "--cluster-accounts", cluster).stdout
    assert f"Galera cluster 'shop-{PRIMARY}' (Synced, 1 member)" in found
    assert "MariaDB 10." in found
