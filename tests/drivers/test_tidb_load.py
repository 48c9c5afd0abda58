"""A load test of inserts into a real TiDB server: what refuses it, what it leaves in each case, and who sees the password.

Job, generator and server are real; only SSH is not.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from dbops.drivers.jobs import HostJobs
from dbops.drivers.mysql import MysqlDatabase
from dbops.engine.errors import Refused
from dbops.engine.load_tests.tidb_cluster import CLAIM
from dbops.engine.states import RunStatus
from dbops.models import Host, Instance, LoadTest
from dbops.operations.load_tests import cancel_load_test, plan_load_test
from dbops.worker import due_load_tests, load_test_clusters, load_test_hosts, load_test_leftovers
from tests.app.factories import make_cluster, make_host, make_instance, make_operator, set_facts
from tests.app.load_test_rows import make_load_test
from tests.drivers.tidb_loads import (
    PASSWORD,
    TABLES,
    confirmed,
    drive,
    generators,
    nothing_is_left,
    probed,
    request_of,
    schemas,
    see,
    tick,
)
from tests.fakes import FakeShell
from tests.run_folder import new_folder, remove
from tests.tidb import WHY_NOT, connect, running_tidb

pytestmark = [
    pytest.mark.services,
    pytest.mark.django_db,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
    pytest.mark.by_hand("TiDB 8.4", "statements"),
]


@pytest.fixture(scope="module")
def root() -> Iterator[MysqlDatabase]:
    with running_tidb() as port:
        database = connect(port)
        database.execute("CREATE USER dbops IDENTIFIED BY 'probe'")
        database.execute("GRANT PROCESS, SELECT ON *.* TO dbops")
        database.execute("CREATE USER dbops_load IDENTIFIED BY %s", (PASSWORD,))
        database.execute("GRANT CREATE, DROP, INSERT, SELECT ON dbops_load.* TO dbops_load")
        database.close()
        yield database
        database.close()


@pytest.fixture
def quiet(root: MysqlDatabase) -> Iterator[MysqlDatabase]:
    """The cluster, without a session of this test. It must be left as it was."""
    before = schemas(root)
    yield root
    after = schemas(root)
    for name in after - before:  # the next test begins without
        root.execute(f"DROP DATABASE {name}")
    root.close()
    assert after == before


@pytest.fixture
def folder() -> Iterator[Path]:
    made = new_folder("tidb-load")
    yield made
    remove(made)


@pytest.fixture
def node(quiet: MysqlDatabase, folder: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Instance:
    """The cluster in the inventory, on this machine."""
    settings.TICK_SECONDS = 3
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    shell = FakeShell(runs_here=True)

    def jobs(self: load_test_hosts.LoadTestHosts, host: Host, uid: str, key: str) -> HostJobs:
        return HostJobs(
            shell,
            work_dir=str(folder),
            instance_key=key,
            run_id=uid,
            token=self._restore_test.host_token,
            dashboard="tests",
        )

    monkeypatch.setattr(load_test_hosts.LoadTestHosts, "_jobs_on", jobs)
    monkeypatch.setattr(load_test_hosts.prober, "probe_now", probed)
    cluster = make_cluster("bench", admin_user="dbops", admin_password="probe")  # noqa: S106
    cluster.load_user, cluster.load_password = "dbops_load", PASSWORD
    cluster.save()
    given = {"role": "tidb", "address": "127.0.0.1", "port": quiet.address.port}
    made = make_instance("bench-t1", cluster=cluster, host=make_host("bench-1", work_dir=str(folder)), **given)
    see(made)
    return made


@pytest.mark.parametrize("table", TABLES)
def test_inserts_are_measured_and_nothing_is_left(node: Instance, folder: Path, table: str) -> None:
    row = drive(confirmed(node, TABLES[table]))
    assert row.error == {}, [event.text for event in row.events.all()]
    assert row.status == RunStatus.SUCCEEDED
    assert [one.number for one in row.rounds.all()] == [1, 2]
    assert row.report["Total"]["QueryCount"] > 0
    assert row.report["Total"]["ErrorQueryCount"] == 0
    regions = {"plain": 1, "partitions": 12, "shards": 8, "random": 1}[table]
    assert row.report["Placement"]["Regions"] >= regions
    assert row.report["Placement"]["TikvNodes"] == 1
    nothing_is_left(row, folder)


def test_password_is_in_no_process_list(node: Instance, folder: Path) -> None:
    row = confirmed(node, seconds=60, steps=(2,))
    drive(row, lambda: generators(row))
    [process] = [one for one in generators(row) if (one / "comm").read_text() == "sysbench\n"]
    shown = {one.name: shown_of(one) for one in Path("/proc").glob("[0-9]*")}
    assert b"MYSQL_PWD" not in shown[process.name]
    assert shown[process.name]
    assert not [pid for pid, text in shown.items() if PASSWORD.encode() in text]
    assert process.stat().st_uid == (65534 if os.geteuid() == 0 else os.geteuid())
    cancel_load_test(actor=make_operator("anna"), load_test=row, reason="seen enough")
    drive(row)
    assert row.status == RunStatus.CANCELLED
    nothing_is_left(row, folder)


def shown_of(process: Path) -> bytes:
    """Return the arguments and the environment of a process; what it has left of them when it ends."""
    found = b""
    for name in ("cmdline", "environ"):
        with suppress(OSError):
            found += (process / name).read_bytes()
    return found


@pytest.mark.parametrize(
    ("make", "undo"),
    [
        ("CREATE DATABASE shop", "DROP DATABASE shop"),
        ("CREATE TABLE test.rows_of_a_person (id INT)", "DROP TABLE test.rows_of_a_person"),
        ("CREATE VIEW test.view_of_a_person AS SELECT 1", "DROP VIEW test.view_of_a_person"),
        ("CREATE SEQUENCE test.sequence_of_a_person", "DROP SEQUENCE test.sequence_of_a_person"),
    ],
)
def test_cluster_that_has_come_to_hold_data_is_refused(
    node: Instance, quiet: MysqlDatabase, folder: Path, make: str, undo: str
) -> None:
    """It was empty when the plan was confirmed."""
    row = confirmed(node)
    quiet.execute(make)
    quiet.close()
    drive(row)
    quiet.execute(undo)
    assert (row.status, row.error["code"]) == (RunStatus.FAILED, "load_test.cluster_in_use")
    nothing_is_left(row, folder)


def test_cluster_with_a_schema_is_refused_by_the_plan(node: Instance, quiet: MysqlDatabase) -> None:
    quiet.execute("CREATE DATABASE Shop")
    see(node)
    quiet.execute("DROP DATABASE Shop")
    assert [one.code for one in plan_load_test(request_of(node)).refusals] == ["load_test.cluster_in_use"]
    with pytest.raises(Refused) as caught:
        make_load_test(request_of(node), typed_name="bench")
    assert caught.value.code == "load_test.refused"


@pytest.mark.parametrize("user", ["root", "dbops"])
def test_cluster_with_a_session_of_others_is_refused(
    node: Instance, quiet: MysqlDatabase, folder: Path, user: str
) -> None:
    """Also one of the dashboard's own account, if it uses a schema: probes use none."""
    row = confirmed(node)
    address = quiet.address if user == "root" else replace(quiet.address, user="dbops", password="probe")  # noqa: S106
    with closing(MysqlDatabase(address, idle_seconds=60)) as session:
        session.execute("USE mysql" if user == "dbops" else "SELECT 1")
        drive(row)
    assert (row.status, row.error["code"]) == (RunStatus.FAILED, "load_test.cluster_in_use")
    nothing_is_left(row, folder)


def test_leftover_is_refused_and_not_dropped(node: Instance, quiet: MysqlDatabase, folder: Path) -> None:
    row = confirmed(node)
    quiet.execute("CREATE DATABASE dbops_load")
    quiet.close()
    drive(row)
    see(node)
    codes = [one.code for one in plan_load_test(request_of(node)).refusals]
    assert "dbops_load" in schemas(quiet)
    quiet.execute("DROP DATABASE dbops_load")
    assert (row.status, row.error["code"], codes) == (RunStatus.FAILED, "load_test.claimed", ["load_test.claimed"])
    nothing_is_left(row, folder)


def test_second_test_of_the_cluster_is_refused_and_the_first_one_ends_well(node: Instance, folder: Path) -> None:
    first = confirmed(node, seconds=15, steps=(1,))
    drive(first, lambda: generators(first))
    other = make_host("bench-2", work_dir=str(folder))
    there = make_instance("elsewhere", cluster=make_cluster("tests"), host=other)
    set_facts(there, replace(probed(node), server=None))
    second = make_load_test_unseen(replace(request_of(node), host="bench-2"), node)
    assert due_load_tests.start_what_can() == [second.pk]
    drive(second)
    assert (second.status, second.error["code"]) == (RunStatus.FAILED, "load_test.claimed")
    drive(first)
    assert (first.status, first.error) == (RunStatus.SUCCEEDED, {})
    nothing_is_left(first, folder)


def test_session_during_the_load_ends_it(node: Instance, quiet: MysqlDatabase, folder: Path) -> None:
    row = confirmed(node, seconds=60, steps=(1,))
    drive(row, lambda: generators(row))
    with closing(MysqlDatabase(quiet.address, idle_seconds=60)) as session:
        session.execute("SELECT 1")
        drive(row)
    assert (row.status, row.error["code"]) == (RunStatus.FAILED, "load_test.cluster_in_use")
    nothing_is_left(row, folder)


def test_killed_generator_leaves_nothing(node: Instance, folder: Path) -> None:
    row = confirmed(node, seconds=60, steps=(1,))
    drive(row, lambda: generators(row))
    for process in generators(row):
        os.kill(int(process.name), signal.SIGKILL)
    drive(row)
    assert (row.status, row.error["code"]) == (RunStatus.FAILED, "load_test.generator")
    nothing_is_left(row, folder)


@pytest.mark.parametrize("place", ["after the claim", "before the table", "in the load"])
def test_next_driver_goes_on_where_a_dead_one_stopped(
    node: Instance, quiet: MysqlDatabase, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    row = confirmed(node)
    if place == "in the load":
        drive(row, lambda: generators(row))
    else:
        name = {"after the claim": "claim", "before the table": "make_table"}[place]
        real = getattr(load_test_clusters, name)

        def dies(*words: Any, **named: Any) -> None:
            if name == "claim":
                words[0].execute("CREATE DATABASE dbops_load")
            raise KeyboardInterrupt

        monkeypatch.setattr(load_test_clusters, name, dies)
        with pytest.raises(KeyboardInterrupt):
            tick(row)
        assert "dbops_load" in schemas(quiet)
        monkeypatch.setattr(load_test_clusters, name, real)
    LoadTest.objects.update(lease_until=timezone.now())
    drive(row)
    assert (row.status, row.error) == (RunStatus.SUCCEEDED, {}), [event.text for event in row.events.all()]
    nothing_is_left(row, folder)


def test_sweep_drops_the_schema_of_a_test_that_was_given_up(node: Instance, quiet: MysqlDatabase, folder: Path) -> None:
    row = confirmed(node, seconds=60, steps=(1,))
    drive(row, lambda: generators(row))
    LoadTest.objects.update(status=RunStatus.LOST, lease_until=timezone.now())
    row.refresh_from_db()
    cancel_load_test(actor=make_operator("anna"), load_test=row, reason="the host is gone")
    row.refresh_from_db()
    assert row.has_leftovers
    assert "dbops_load" in schemas(quiet)
    deadline = time.monotonic() + 60
    while not load_test_leftovers.sweep(seconds=5):
        assert time.monotonic() < deadline
    row.refresh_from_db()
    nothing_is_left(row, folder)


def test_tables_of_others_in_the_schema_are_not_dropped(node: Instance, quiet: MysqlDatabase, folder: Path) -> None:
    row = confirmed(node, seconds=60, steps=(1,))
    drive(row, lambda: generators(row))
    quiet.execute("CREATE TABLE dbops_load.precious (id INT)")
    quiet.close()
    drive(row)
    assert row.has_leftovers
    assert quiet.query("SHOW TABLES IN dbops_load LIKE 'precious'")
    quiet.execute("DROP DATABASE dbops_load")
    quiet.close()
    assert load_test_leftovers.sweep(seconds=20) == 1


def test_account_without_the_grant_is_refused_with_the_statement(
    node: Instance, quiet: MysqlDatabase, folder: Path
) -> None:
    quiet.execute("REVOKE CREATE, DROP, INSERT, SELECT ON dbops_load.* FROM dbops_load")
    quiet.close()
    row = drive(confirmed(node))
    quiet.execute("GRANT CREATE, DROP, INSERT, SELECT ON dbops_load.* TO dbops_load")
    assert (row.status, row.error["code"]) == (RunStatus.FAILED, "load_test.account")
    assert "ON dbops_load.*" in row.error["next_step"]
    nothing_is_left(row, folder)


def test_dashboard_that_does_not_see_everything_is_refused(node: Instance, quiet: MysqlDatabase, folder: Path) -> None:
    row = confirmed(node)
    quiet.execute("REVOKE PROCESS ON *.* FROM dbops")
    quiet.close()
    drive(row)
    quiet.execute("GRANT PROCESS ON *.* TO dbops")
    assert (row.status, row.error["code"]) == (RunStatus.FAILED, "load_test.cluster_in_use")


def test_unknown_node_is_refused(node: Instance) -> None:
    row = confirmed(node)
    plan = row.plan
    plan["tidb"]["nodes"] = [*plan["tidb"]["nodes"], "tidb 192.0.2.9:4000"]
    LoadTest.objects.update(plan=plan)
    drive(row)
    assert (row.status, row.error["code"]) == (RunStatus.FAILED, "load_test.cluster_nodes")


def test_failing_table_leaves_nothing(node: Instance, folder: Path) -> None:
    row = drive(confirmed(node, f"CREATE TABLE {CLAIM} (id INT)", **{}))
    assert (row.status, row.error["code"]) == (RunStatus.FAILED, "load_test.table_fails")
    nothing_is_left(row, folder)


def test_load_ends_if_no_worker_looks(node: Instance, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = confirmed(node, seconds=120, steps=(1,))
    drive(row, lambda: generators(row))
    seen = next(folder.rglob("seen"))
    os.utime(seen, (1, 1))
    deadline = time.monotonic() + 60
    while generators(row):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    drive(row)
    assert (row.status, row.error["code"]) == (RunStatus.FAILED, "load_test.unwatched")
    nothing_is_left(row, folder)


def make_load_test_unseen(request: Any, node: Instance) -> LoadTest:
    """Confirm a plan whose probe did not yet see the schema of the test that runs."""
    facts = probed(node)
    assert facts.server
    assert facts.server.tidb
    unseen = replace(facts.server.tidb, user_schemas=())
    set_facts(node, replace(facts, server=replace(facts.server, tidb=unseen)))
    return make_load_test(request, typed_name="bench", request_key="two", actor=make_operator("two"))
