"""A load test of inserts into a real TiDB server as a person runs it: command, worker, SSH to the load generator's host, and the report."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.drivers.tidb_loads import TABLES
from tests.stack import Stack, running_stack
from tests.tidb import WHY_NOT, connect, running_tidb

from .load_testing import begin, cancel, load_test_of, manage

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
    pytest.mark.by_hand("TiDB 8.4", "load test"),
]
HOST, PASSWORD = "replica-1", "l0ad's \\secret!"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running_tidb() as found:
        database = connect(found)
        database.execute("CREATE USER dbops IDENTIFIED BY 'probe'")
        database.execute("GRANT PROCESS, SELECT ON *.* TO dbops")
        database.execute("CREATE USER dbops_load IDENTIFIED BY %s", (PASSWORD,))
        database.execute("GRANT CREATE, DROP, INSERT, SELECT ON dbops_load.* TO dbops_load")
        database.close()
        yield found


@pytest.fixture(scope="module")
def stack(port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(replicas=1, web=False) as running:
        [host] = [
            one for one in yaml.safe_load(running.manage("fleet", "export").stdout)["hosts"] if HOST in one["name"]
        ]
        node = {"name": "bench-t1", "role": "tidb", "host": host["name"], "address": "127.0.0.1", "port": port}
        node |= {"datadir": "/tidb-deploy/tidb-4000", "service": {"systemd_unit": "tidb-4000"}}
        accounts = {
            "admin": {"user": "dbops", "password": "probe"},
            "load": {"user": "dbops_load", "password": PASSWORD},
        }
        fleet = {
            "version": 1,
            "hosts": [host],
            "clusters": [{"name": "bench", "accounts": accounts, "instances": [node]}],
        }
        file = tmp_path_factory.mktemp("fleet") / "fleet.yaml"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(fleet))
        running.manage("fleet", "import", str(file))
        running.host_name = host["name"]  # type: ignore[attr-defined]
        running.wait_for_facts("bench-t1", answering=True)
        running.wait_for_probe("the plan", lambda: manage(running, "plan", "-", request=request_of(running))[0] == 0)
        yield running


def request_of(stack: Stack, **changes: object) -> dict[str, object]:
    workload = {"profile": "insert", "table_ddl": TABLES["partitions"], "key_ranges": [["u", 1, 10_000]]}
    return {
        **{"source": "bench-t1", "host": stack.host_name, "workload": workload, "raised": "rate"},  # type: ignore[attr-defined]
        **{"steps": [50, 100], "repeats": 1, "seconds": 2, "warm_up_seconds": 0, "threads": 2, "most_seconds": 600},
        **changes,
    }


def schemas(port: int) -> set[str]:
    database = connect(port)
    try:
        return {
            str(row["name"]).lower()
            for row in database.query("SELECT SCHEMA_NAME AS name FROM information_schema.SCHEMATA")
        }
    finally:
        database.close()


def test_inserts_are_measured_and_the_cluster_is_left_as_it_was(stack: Stack, port: int) -> None:
    before = schemas(port)
    words = ("--confirm", "bench", "--reason", "a test", "--watch")
    status, result = manage(stack, "start", "-", *words, request=request_of(stack))
    assert (status, result["error"]) == (0, {}), result["error"]
    assert result["report"]["Total"]["QueryCount"] > 0
    assert result["report"]["Total"]["ErrorQueryCount"] == 0
    assert schemas(port) == before
    assert not [*Path("/tmp").glob(f"dbops-load-test-{load_test_of(stack, 1)['uid']}*")]


def test_name_of_the_host_confirms_nothing(stack: Stack, port: int) -> None:
    words = ("--confirm", stack.host_name, "--reason", "a test")  # type: ignore[attr-defined]
    assert manage(stack, "start", "-", *words, request=request_of(stack))[0] == 2
    assert "dbops_load" not in schemas(port)


def test_cancel_leaves_the_cluster_as_it_was(stack: Stack, port: int) -> None:
    before = schemas(port)
    stack.wait_for_facts("bench-t1", answering=True)  # those of the test before show its schema
    row = begin(stack, request_of(stack, seconds=60), "rounds", confirm="bench")
    assert "dbops_load" in schemas(port)
    ended = cancel(stack, row["id"])
    assert (ended["status"], ended["has_leftovers"]) == ("cancelled", 0)
    assert schemas(port) == before
