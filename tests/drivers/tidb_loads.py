"""Load tests of a real TiDB node, driven tick by tick on this machine."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.utils import timezone

from dbops.drivers.mysql import MysqlDatabase
from dbops.drivers.probe import ProbeTarget, probe_instance
from dbops.engine.facts.instance import InstanceFacts, Tool
from dbops.engine.load_tests.request import Raised
from dbops.engine.load_tests.workload import Profile, Workload
from dbops.models import Instance, LoadTest
from dbops.worker import due_load_tests, load_tests
from tests.app.factories import set_facts
from tests.app.load_test_rows import make_load_test, make_request
from tests.fakes import FakeShell
from tests.tidb import connect

PASSWORD = "l0ad's \\secret\t!"
TABLES = {
    "plain": "CREATE TABLE t (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, u INT NOT NULL, note VARCHAR(20) NOT NULL)",
    "partitions": "CREATE TABLE t (id BIGINT NOT NULL AUTO_INCREMENT, u INT NOT NULL, PRIMARY KEY (id, u))"
    " PARTITION BY KEY (u) PARTITIONS 12",
    "shards": "CREATE TABLE t (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY NONCLUSTERED, u INT NOT NULL)"
    " SHARD_ROW_ID_BITS = 4 PRE_SPLIT_REGIONS = 3",
    "random": "CREATE TABLE `t``;%s` (id BIGINT NOT NULL AUTO_RANDOM PRIMARY KEY, u INT NOT NULL)",
}


def probed(instance: Instance) -> InstanceFacts:
    """Probe the node and this machine."""
    account = {"user": "dbops", "password": "probe"}
    with closing(MysqlDatabase(replace(connect(instance.port).address, **account))) as database:
        facts = probe_instance(
            ProbeTarget("/nowhere", is_tidb=True), FakeShell(runs_here=True), lambda: database, timezone.now()
        )
    assert facts.host
    host = replace(facts.host, tools={**facts.host.tools, "sysbench": Tool("/usr/bin/sysbench")})
    return replace(facts, host=host)


def see(instance: Instance) -> None:
    set_facts(instance, probed(instance))


def schemas(database: MysqlDatabase) -> set[str]:
    found = {str(row["Database"]) for row in database.query("SHOW DATABASES")}
    database.close()
    return found


def request_of(node: Instance, ddl: str = TABLES["plain"], **changes: Any) -> Any:
    work = Workload(Profile.INSERT, table_ddl=ddl, key_ranges=(("u", 1, 10_000),))
    given = {"steps": (1, 2), "repeats": 1, "seconds": 2, "warm_up_seconds": 0, "raised": Raised.THREADS}
    return make_request(node, node.host, workload=work, **(given | changes))


def confirmed(node: Instance, ddl: str = TABLES["plain"], **changes: Any) -> LoadTest:
    row = make_load_test(request_of(node, ddl, **changes), typed_name="bench")
    assert due_load_tests.start_what_can() == [row.pk]
    return row


def tick(row: LoadTest) -> LoadTest:
    LoadTest.objects.filter(pk=row.pk).update(next_tick_at=timezone.now())
    load_tests.LoadTestDriver.tick(row.pk)
    row.refresh_from_db()
    return row


def drive(row: LoadTest, until: Callable[[], object] = lambda: False) -> LoadTest:
    deadline = time.monotonic() + 120
    while not tick(row).is_over and not until():
        assert time.monotonic() < deadline, (row.checkpoint, [event.text for event in row.events.all()])
    return row


def generators(row: LoadTest) -> list[Path]:
    """Return the processes of the load generator."""
    script = f"/tmp/dbops-load-test-{row.uid}/load/load.lua".encode()
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if script in line.read_bytes().split(b"\0"):
                found.append(line.parent)
        except OSError:
            continue
    return found


def nothing_is_left(row: LoadTest, folder: Path) -> None:
    assert not row.has_leftovers
    assert not generators(row)
    assert not Path(f"/tmp/dbops-load-test-{row.uid}").exists()
    assert not list(folder.glob(".dbops-load-test-*"))
    secret = PASSWORD.encode()
    assert not [path for path in folder.rglob("*") if path.is_file() and secret in path.read_bytes()]
    stored = [row.request, row.plan, row.checkpoint, row.report, *(event.text for event in row.events.all())]
    assert PASSWORD not in str(stored)
