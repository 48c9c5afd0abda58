"""The plan of a load test: what it needs, what speaks against it, and which changes a person must see again."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dbops.engine.backups.archives import Archive
from dbops.engine.facts.growth import GrowthReading
from dbops.engine.facts.instance import InstanceFacts, RunTimeSetting, Tool
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.prepare import MIB
from dbops.engine.load_tests.copy import empty_copy
from dbops.engine.load_tests.facts import LoadTestFacts, LoadTestLimits, Neighbour
from dbops.engine.load_tests.job_files import SEPARATOR, job_files
from dbops.engine.load_tests.plan import LoadTestPlan, plan_load_test
from dbops.engine.load_tests.planned_rounds import rounds_of
from dbops.engine.load_tests.request import LoadTestRequest, Raised
from dbops.engine.load_tests.server_options import server_options
from dbops.engine.load_tests.workload import Profile, Workload
from dbops.engine.states import BackupMethod, Severity
from tests.engine import builders

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
GIB = 1024 * MIB
ROTATING = Workload(
    Profile.ROTATING, schema="shop", statements=("SELECT 1",), table_ddl="CREATE TABLE a (id INT PRIMARY KEY)"
)


def request(**changes: Any) -> LoadTestRequest:
    given: dict[str, Any] = {"workload": Workload(Profile.POINT_SELECT), "steps": (1, 2), "pool_bytes": GIB}
    return LoadTestRequest(source="backup-1", host="tester-1", **(given | changes))


def source(**server: Any) -> InstanceFacts:
    return builders.facts(2, server=builders.server(2, **server))


def facts(version: str = "10.11.19-MariaDB", **changes: Any) -> LoadTestFacts:
    host = builders.host(1, cpu_count=changes.pop("cpu_count", 16))
    host = replace(host, tools={**host.tools, "sysbench": Tool("/usr/bin/sysbench")})
    given = {"source": source(), "host": host, "work_dir": "/var/lib/dbops", "now": NOW}
    return LoadTestFacts(flavor=flavor_for(version), **(given | changes))


def plan(wanted: LoadTestRequest | None = None, known: LoadTestFacts | None = None, **limits: Any) -> LoadTestPlan:
    wanted = wanted or request()
    return plan_load_test(wanted, known or facts(), rounds_of(wanted), LoadTestLimits(**limits))


def found(made: LoadTestPlan) -> dict[str, Severity]:
    return {one.code: one.severity for one in made.findings}


def grown(**values: Any) -> InstanceFacts:
    return replace(source(), growth=GrowthReading(NOW, **values))


def test_host_with_cores_for_both_has_no_finding() -> None:
    made = plan()
    assert made.findings == ()
    assert (made.server_cores, made.generator_cores, made.shares_cores) == (4, 2, False)


@pytest.mark.parametrize(
    ("count", "cores"), [(1, (1, 1, True)), (2, (2, 2, True)), (4, (3, 1, False)), (6, (4, 2, False))]
)
def test_server_and_generator_share_the_cores_of_a_small_host(count: int, cores: tuple[int, int, bool]) -> None:
    made = plan(known=facts(cpu_count=count))
    assert (made.server_cores, made.generator_cores, made.shares_cores) == cores
    assert ("load_test.cores" in found(made)) is cores[2]


def test_serving_neighbours_are_named() -> None:
    neighbours = (Neighbour("db-1", "shop", "primary", takes_writes=True), Neighbour("db-2", "shop", "replica"))
    made = plan(known=facts(neighbours=neighbours))
    assert found(made) == {"load_test.host": Severity.REFUSAL, "load_test.shared_host": Severity.WARNING}
    made = plan(known=facts(neighbours=neighbours), allows_primary_hosts=True)
    assert set(found(made).values()) == {Severity.WARNING}


def test_busy_host_makes_the_test_wait_and_not_fail() -> None:
    assert found(plan(known=facts(busy="rebuild 7 uses db-1"))) == {"load_test.busy": Severity.WARNING}


def test_pool_above_the_setting_is_refused() -> None:
    assert found(plan(most_pool_bytes=GIB - 1)) == {"load_test.memory": Severity.REFUSAL}


def test_memory_up_to_the_limit_must_be_free() -> None:
    known, limit = facts(), plan().memory_limit_bytes
    assert known.host
    assert limit > plan().memory_bytes
    enough, short = (replace(known, host=replace(known.host, memory_available_bytes=limit - by)) for by in (0, 1))
    assert found(plan(known=enough)) == {}
    assert found(plan(known=short)) == {"load_test.memory": Severity.REFUSAL}
    assert empty_copy("ab12", plan(), known.host, known.flavor).needed_memory_bytes == limit


def test_disk_that_looks_too_small_is_a_warning_because_the_host_decides() -> None:
    assert found(plan(known=facts(free_bytes=GIB))) == {"load_test.space": Severity.WARNING}


def test_empty_server_without_tables_of_the_schema_is_refused() -> None:
    wanted = request(raised=Raised.SCHEMAS, workload=replace(ROTATING, table_ddl=""))
    assert found(plan(wanted)) == {"load_test.backup": Severity.REFUSAL}
    assert found(plan(replace(wanted, workload=ROTATING))) == {}


@pytest.mark.parametrize("version", ["8.0.38", "8.4.1", "9.0.0"])
def test_releases_that_crash_with_many_tables_are_refused(version: str) -> None:
    wanted = request(raised=Raised.SCHEMAS, steps=(10, 1000), workload=replace(ROTATING, seconds_on_schema=0.05))
    many = facts(version, source=grown(schemas=10, tables=200))
    assert found(plan(wanted, many)) == {"load_test.version": Severity.REFUSAL}
    assert found(plan(replace(wanted, steps=(10, 100)), many)) == {}
    assert found(plan(wanted, facts("8.0.39", source=grown(schemas=10, tables=200)))) == {}


@pytest.mark.parametrize(
    ("changes", "is_short"),
    [
        ({}, True),  # 1,200 schemas, 8 threads and 5 s on each: 750 s
        ({"seconds": 750}, False),
        ({"seconds": 750, "rate": 1}, True),
        ({"workload": replace(ROTATING, seconds_on_schema=0.05)}, False),
        ({"workload": Workload(Profile.POINT_SELECT), "raised": Raised.THREADS}, False),
    ],
)
def test_rounds_too_short_for_all_schemas_are_named(changes: dict[str, Any], is_short: bool) -> None:
    made = plan(request(**({"raised": Raised.SCHEMAS, "steps": (10, 1200), "workload": ROTATING} | changes)))
    assert (found(made).get("load_test.schemas") == Severity.WARNING) is is_short


def test_more_schemas_need_more_disk_and_time() -> None:
    known = facts(source=grown(schemas=10, tables=200))
    small, large = (
        plan(request(raised=Raised.SCHEMAS, steps=(count,), workload=ROTATING), known) for count in (10, 1000)
    )
    assert large.needed_bytes > small.needed_bytes
    assert large.estimate.total is not None
    assert small.estimate.total is not None
    assert large.estimate.total > small.estimate.total


def test_time_of_copies_is_unknown_with_the_number_of_schemas() -> None:
    wanted = request(run=7, raised=Raised.SCHEMAS, steps=(1000,), workload=replace(ROTATING, row_share=0.001))
    archive = Archive(
        7, "ab12", BackupMethod.PHYSICAL, "backup-1", "/b/a.zst", 300 * GIB, "c" * 64, "mariadb", "10.11.19", NOW
    )
    unknown = plan(wanted, facts(archive=archive))
    known = plan(wanted, facts(archive=archive, source=grown(schemas=1000, tables=20_000)))
    assert (unknown.estimate.fill, unknown.estimate.total) == (None, None)
    assert "load_test.time" not in found(unknown)
    assert known.estimate.fill is not None
    assert known.estimate.fill < 600  # 20,000 tables, and a thousandth of the data


def test_fingerprint_follows_what_runs_and_not_what_changes_on_its_own() -> None:
    before = plan()
    assert plan().fingerprint == before.fingerprint
    assert plan(known=facts(free_bytes=10**15)).fingerprint == before.fingerprint
    assert plan(request(pool_bytes=2 * GIB)).fingerprint != before.fingerprint
    assert plan(request(seed=2, steps=(1, 2, 3, 4))).fingerprint != before.fingerprint
    assert plan(known=facts(busy="rebuild 7 uses db-1")).fingerprint != before.fingerprint


def test_each_arm_counts_in_the_memory_and_disk_of_a_plan() -> None:
    usual = plan()
    for arm, memory, disk in (
        ((("sort_buffer_size", "64M"),), 8 * 64 * MIB, 0),
        ((("innodb_log_buffer_size", "512M"),), 512 * MIB, 0),
        ((("table_open_cache", "500000"),), GIB, 0),
        ((("innodb_log_file_size", "32G"),), 0, 28 * GIB),
    ):
        for changes in ({"options": arm}, {"raised": Raised.NOTHING, "options_b": arm, "threads": 8}):
            wanted = request(steps=(8,), **changes)
            made = plan(wanted)
            assert made.server_memory_bytes - usual.server_memory_bytes >= memory, changes
            assert made.needed_bytes - usual.needed_bytes >= disk, changes


class TestServerOptions:
    def test_settings_of_the_source_are_taken_and_those_of_the_person_win(self) -> None:
        base = source(
            set_at_run_time=(RunTimeSetting("innodb_io_capacity", "4000"), RunTimeSetting("tmpdir", "/etc")),
            doublewrite="OFF",
        )
        options = server_options(
            flavor_for("10.11.19-MariaDB"), base, pool_bytes=GIB, connections=8, extra=(("innodb_doublewrite", "ON"),)
        )
        assert "--loose-innodb-io-capacity=4000" in options.words
        assert "--innodb-doublewrite=ON" in options.words
        assert not [word for word in options.words if "tmpdir" in word or word == "--loose-innodb-doublewrite=OFF"]

    @pytest.mark.parametrize("version", ["5.7.42", "8.0.46", "9.7.4", "10.11.19-MariaDB", "11.8.6-MariaDB"])
    def test_nothing_after_them_opens_the_server(self, version: str) -> None:
        extra = (("max_connections", "5000"),)
        options = server_options(flavor_for(version), source(), pool_bytes=GIB, connections=8, extra=extra)
        words = list(options.words)
        assert words.index("--skip-networking") > words.index("--max-connections=5000")
        assert words.index("--skip-grant-tables") > words.index("--max-connections=5000")

    def test_caches_are_those_that_run(self) -> None:
        known = grown(table_open_cache=431, open_files_limit=1024)
        options = server_options(flavor_for("10.11.19-MariaDB"), known, pool_bytes=GIB, connections=8)
        assert options.cache("table_open_cache") == 431
        assert "--loose-open-files-limit=1024" in options.words

    def test_value_that_is_a_path_is_left_out(self) -> None:
        known = source(set_at_run_time=(RunTimeSetting("collation_server", "../../etc"),))
        options = server_options(flavor_for("10.11.19-MariaDB"), known, pool_bytes=GIB, connections=8)
        assert not [word for word in options.words if ".." in word]

    def test_redo_log_keeps_its_share_of_the_pool(self) -> None:
        base = source(
            set_at_run_time=(RunTimeSetting("innodb_buffer_pool_size", str(8 * GIB)),), redo_capacity_bytes=4 * GIB
        )
        options = server_options(flavor_for("10.11.19-MariaDB"), base, pool_bytes=GIB, connections=8)
        assert f"--innodb-log-file-size={GIB // 2}" in options.words


class TestJobFiles:
    def files(self, wanted: LoadTestRequest) -> dict[str, str]:
        made, known = plan(wanted), facts()
        assert known.host
        copy = empty_copy("ab12", made, known.host, known.flavor)
        return job_files(made, wanted.workload, copy, known.flavor)

    def test_each_round_is_one_line_and_the_generator_knows_the_scratch_socket_alone(self) -> None:
        lines = self.files(request())["rounds"].splitlines()
        assert len(lines) == len(rounds_of(request()))
        for line in lines:
            words = line.split(SEPARATOR)
            assert [word for word in words if "socket" in word] == ["--mysql-socket=/tmp/dbops-load-test-ab12/run/s"]
            assert not [word for word in words if word.startswith(("--mysql-host", "--mysql-password"))]

    def test_arms_restart_the_server_with_their_options(self) -> None:
        wanted = request(raised=Raised.NOTHING, options_b=(("innodb_doublewrite", "OFF"),), seconds=1)
        fields = [line.split(SEPARATOR) for line in self.files(wanted)["rounds"].splitlines()]
        assert {words[3] for words in fields} == {"1"}
        assert {words[5] for words in fields if words[4] == "1"} == {"--innodb-doublewrite=OFF"}

    def test_hostile_name_of_a_schema_stays_a_value(self) -> None:
        wanted = request(raised=Raised.SCHEMAS, workload=replace(ROTATING, schema="a`; DROP DATABASE b; -- $(x)"))
        files = self.files(wanted)
        assert files["table.sql"].startswith("CREATE DATABASE IF NOT EXISTS `a``; DROP DATABASE b; -- $(x)`;\n")
        settings = dict(line.split("=", 1) for line in files["settings"].splitlines())
        assert bytes.fromhex(settings["schema"]).decode() == wanted.workload.schema
