"""Settings that are relaxed while a copy is rolled forward: what each server takes, and that each gets back what it had."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.relaxed_durability import relaxations, same_value
from dbops.engine.hosts.progress import catch_up_progress
from dbops.engine.ports import CommandResult
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.finish.sweep import needs_sweep
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.start.relaxed_durability import end_relaxation, relax, restore_durability_at_end, watch
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs, ended, server_error

FLUSH, SYNC, DOUBLEWRITE = "innodb_flush_log_at_trx_commit", "sync_binlog", "innodb_doublewrite"
MARIADB_APPLIERS, MYSQL_APPLIERS = "slave_parallel_threads", "replica_parallel_workers"


@pytest.mark.parametrize(
    ("version", "flavor", "taken"),
    [
        ("5.7.42", "mysql", {FLUSH, SYNC}),
        ("8.0.26", "mysql", {FLUSH, SYNC}),
        ("8.0.29", "mysql", {FLUSH, SYNC, MYSQL_APPLIERS}),
        ("8.0.30", "mysql", {FLUSH, SYNC, DOUBLEWRITE, MYSQL_APPLIERS}),
        ("8.4.10", "mysql", {FLUSH, SYNC, DOUBLEWRITE, MYSQL_APPLIERS}),
        ("9.7.4", "mysql", {FLUSH, SYNC, DOUBLEWRITE, MYSQL_APPLIERS}),
        ("10.3.39", "mariadb", {FLUSH, SYNC, MARIADB_APPLIERS}),
        ("10.11.19", "mariadb", {FLUSH, SYNC, MARIADB_APPLIERS}),
        ("11.0.5", "mariadb", {FLUSH, SYNC, MARIADB_APPLIERS}),
        ("11.0.6", "mariadb", {FLUSH, SYNC, DOUBLEWRITE, MARIADB_APPLIERS}),
        ("11.1.4", "mariadb", {FLUSH, SYNC, MARIADB_APPLIERS}),
        ("11.3.2", "mariadb", {FLUSH, SYNC, MARIADB_APPLIERS}),
        ("11.4.1", "mariadb", {FLUSH, SYNC, MARIADB_APPLIERS}),
        ("11.8.6", "mariadb", {FLUSH, SYNC, DOUBLEWRITE, MARIADB_APPLIERS}),
    ],
)
def test_relaxations_fit_each_server_version(version: str, flavor: str, taken: set[str]) -> None:
    assert {item.variable for item in relaxations(flavor_for(version, flavor), appliers=8, gtid=True)} == taken


def test_mysql_detects_torn_pages_and_mariadb_does_without_doublewrite() -> None:
    mysql, mariadb = flavor_for("8.4.10", "mysql"), flavor_for("11.8.6", "mariadb")
    values = {
        flavor.name: next(
            item.value for item in relaxations(flavor, appliers=0, gtid=True) if item.variable == DOUBLEWRITE
        )
        for flavor in (mysql, mariadb)
    }
    assert values == {"mysql": "DETECT_ONLY", "mariadb": "OFF"}


def test_relaxations_leave_appliers_without_gtid() -> None:
    found = relaxations(flavor_for("10.11.19", "mariadb"), appliers=8, gtid=False)
    assert {item.variable for item in found} == {FLUSH, SYNC}


@pytest.mark.parametrize(
    ("variable", "now", "is_worth_it"),
    [
        *((FLUSH, value, wanted) for value, wanted in (("0", False), ("1", True), ("2", False), ("3", True))),
        *((SYNC, value, wanted) for value, wanted in (("0", False), ("1", True), ("1000", True))),
        *((DOUBLEWRITE, value, wanted) for value, wanted in (("ON", True), ("fast", True), ("OFF", False))),
        *(
            (MARIADB_APPLIERS, value, wanted)
            for value, wanted in (("0", True), ("7", True), ("8", False), ("32", False))
        ),
    ],
)
def test_relaxation_is_skipped_when_already_relaxed(variable: str, now: str, is_worth_it: bool) -> None:
    found = relaxations(flavor_for("11.8.6", "mariadb"), appliers=8, gtid=True)
    assert next(item for item in found if item.variable == variable).is_worth_it(now) is is_worth_it


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("ON", "DETECT_AND_RECOVER", True), ("fast", "FAST", True), ("1", "2", False), ("DETECT_ONLY", "ON", False)],
)
def test_same_value_compares_words_and_numbers(one: str, other: str, same: bool) -> None:
    assert same_value(one, other) is same


@dataclass
class World:
    """A server with variables, on a host that may be restarted."""

    run: Run
    jobs: FakeJobs
    target: FakeDatabase
    journal: RecordedJournal
    variables: dict[str, str]
    boot: str = "boot-1"
    server: str = "77:1000"
    applier: str = "No"
    #: what a statement does, by its first word
    does: dict[str, Callable[[str, Any], list[Any]]] = field(default_factory=dict)

    def sets(self) -> list[str]:
        return [sql for sql in self.target.statements if sql.startswith("SET GLOBAL")]


@pytest.fixture
def world() -> World:
    return make_world()


def make_world(version: str = "10.11.19", flavor: str = "mariadb") -> World:
    plan = build_plan(builders.inputs())
    plan = replace(plan, source=replace(plan.source, version=version), flavor=flavor, relaxes=True, appliers=8)
    jobs, source, target, journal = FakeJobs(), FakeDatabase(), FakeDatabase(), RecordedJournal()
    variables = {FLUSH: "1", SYNC: "7", MARIADB_APPLIERS: "3", DOUBLEWRITE: "ON"}
    run = make_run(plan, jobs, source=source, target=target, journal=journal, clock=FakeClock())
    world = World(run, jobs, target, journal, variables)

    def show(sql: str, _: Any) -> list[dict[str, str]]:
        name = sql.split("'")[1]
        return [{"Variable_name": name, "Value": variables[name]}] if name in variables else []

    def change(sql: str, _: Any) -> list[Any]:
        name, value = sql.removeprefix("SET GLOBAL ").split(" = ")
        if name == MARIADB_APPLIERS and world.applier == "Yes":
            raise server_error(1198, "This operation cannot be performed as you have a running slave")
        variables[name] = value.strip("'")
        return []

    def applier(state: str) -> Any:
        def set_state(*_: Any) -> list[Any]:
            world.applier = state
            return []

        return set_state

    world.does = {"SET": change, "STOP": applier("No"), "START": applier("Yes")}
    target.expect("SHOW ALL SLAVES|SHOW REPLICA", lambda *_: [link_row(world.applier)])
    target.expect("SHOW GLOBAL VARIABLES", show)
    target.expect("SELECT 1 AS here", [{"here": 1}])
    target.expect("^SET GLOBAL", change)
    target.expect("STOP (ALL SLAVES|REPLICA) SQL_THREAD", world.does["STOP"])
    target.expect("START (ALL SLAVES|REPLICA) SQL_THREAD", world.does["START"])
    target.expect("server_id", [{"server_id": plan.target.configured_server_id, "read_only": 1}])
    jobs.expect("boot=", lambda _: CommandResult(0, f"boot={world.boot}\nserver={world.server}\n", ""))
    return world


def link_row(applier: str) -> dict[str, Any]:
    return {
        **{"Master_Host": "10.0.0.11", "Master_Port": 3306, "Slave_IO_Running": "Yes", "Slave_SQL_Running": applier},
        **{"Relay_Master_Log_File": "binlog.000001", "Exec_Master_Log_Pos": 4, "Seconds_Behind_Master": 0},
        **{"Using_Gtid": "Slave_Pos", "Last_IO_Error": "", "Last_SQL_Error": ""},
    }


def until_ordinary(world: World) -> None:
    for _ in range(20):
        if end_relaxation(world.run, world.target) is None:
            return
    raise AssertionError("it does not become ordinary")


AS_IT_WAS = {FLUSH: "1", SYNC: "7", MARIADB_APPLIERS: "3", DOUBLEWRITE: "ON"}
RELAXED = {FLUSH: "2", SYNC: "0", MARIADB_APPLIERS: "8", DOUBLEWRITE: "ON"}


def test_relax_restores_each_previous_value(world: World) -> None:
    relax(world.run, world.target)
    assert world.variables == RELAXED
    assert world.run.checkpoint["undurable"] == {"boot": "boot-1", "server": ""}
    until_ordinary(world)
    assert world.variables == AS_IT_WAS
    assert not {"relaxed", "undurable"} & set(world.run.checkpoint)
    assert "settle" in world.jobs.started
    assert {"relax.1.sync_binlog", "restore.1.sync_binlog", "settle"} <= set(world.journal.commands)


def test_relax_does_nothing_when_the_plan_does_not_relax(world: World) -> None:
    world.run.plan = replace(world.run.plan, relaxes=False)
    relax(world.run, world.target)
    until_ordinary(world)
    assert world.sets() == []


def test_plan_shows_relax_statements_only_when_enabled() -> None:
    def shown(relaxes: bool) -> str:
        plan = build_plan(replace(builders.inputs(), relaxes=relaxes))
        return "\n".join(command.text for step in plan.steps for command in step.commands)

    assert "SET GLOBAL sync_binlog = 0   # if set to more" in shown(True)
    assert "SET GLOBAL slave_parallel_threads = 16   # if set to less" in shown(True)
    assert "SET GLOBAL sync_binlog = (its earlier value)" in shown(True)
    others = ("gtid_slave_pos", "event_scheduler", "init_connect")
    statements = [line for line in shown(False).splitlines() if line.startswith("SET GLOBAL")]
    assert [line for line in statements if line.split()[2] not in others] == []


def test_relax_restarts_a_running_applier(world: World) -> None:
    world.applier = "Yes"
    relax(world.run, world.target)
    assert (world.applier, world.variables[MARIADB_APPLIERS]) == ("Yes", "8")
    until_ordinary(world)
    assert (world.applier, world.variables[MARIADB_APPLIERS]) == ("Yes", "3")


@pytest.mark.parametrize("statement", ["SET GLOBAL sync", "SET GLOBAL slave", "STOP ALL SLAVES", "START ALL SLAVES"])
@pytest.mark.parametrize("has_run", [True, False])
def test_relax_keeps_values_when_a_driver_dies_between_statements(statement: str, has_run: bool, world: World) -> None:
    """The next driver uses the checkpoint from before the statement, whether or not that has reached the server."""
    world.applier = "Yes"
    died: list[str] = []

    class Died(Exception): ...

    def die(sql: str, parameters: Any) -> list[Any]:
        if has_run or died:
            world.does[sql.split()[0]](sql, parameters)
        if not died:
            died.append(sql)
            raise Died
        return []

    world.target.expect(statement, die)
    kept: list[dict[str, Any]] = []

    def written(key: str, place: str, text: str) -> None:
        kept.append(copy.deepcopy(world.run.checkpoint))

    world.journal.command = written  # type: ignore[method-assign]
    with pytest.raises(Died):
        relax(world.run, world.target)
    world.run.checkpoint = kept[-1]
    relax(world.run, world.target)
    assert (world.variables, world.applier) == (RELAXED, "Yes")
    until_ordinary(world)
    assert (world.variables, world.applier) == (AS_IT_WAS, "Yes")


def test_relax_skips_a_setting_that_the_server_refuses(world: World) -> None:
    world.target.expect("SET GLOBAL sync_binlog = 0", server_error(1227, "Access denied"))
    relax(world.run, world.target)
    assert world.variables == {**RELAXED, SYNC: "7"}
    until_ordinary(world)
    assert world.variables == AS_IT_WAS


def test_restore_fails_when_a_value_does_not_return(world: World) -> None:
    relax(world.run, world.target)
    world.target.expect("SET GLOBAL sync_binlog = 7", [])
    with pytest.raises(RemoteFailure) as failed:
        until_ordinary(world)
    assert failed.value.code == "relaxed.not_back"


def test_restore_continues_after_a_server_crash_but_not_after_a_host_restart(world: World) -> None:
    relax(world.run, world.target)
    world.variables |= AS_IT_WAS  # of its option file
    world.server = "99:2000"
    world.run.clock.sleep(10)
    watch(world.run)
    relax(world.run, world.target)
    assert world.variables == RELAXED
    world.boot = "boot-2"
    with pytest.raises(RemoteFailure) as failed:
        until_ordinary(world)
    assert failed.value.code == "copy.worthless"
    assert world.run.checkpoint["worthless"]


def test_relax_is_bound_to_the_server_process(world: World) -> None:
    """The server dies between the look at the host and the first statement; another one is there when the next driver comes."""
    away = Unreachable("mysql.unreachable", "Talking to the server")
    world.target.expect("SELECT 1 AS here", [{"here": 1}], away, [{"here": 1}])
    with pytest.raises(Unreachable):
        relax(world.run, world.target)
    assert "relaxed" not in world.run.checkpoint
    world.server = "99:2000"
    relax(world.run, world.target)
    assert world.run.checkpoint["relaxed"]["server"] == "99:2000"
    until_ordinary(world)
    assert world.variables == AS_IT_WAS


def test_relax_is_skipped_when_the_server_process_is_unknown(world: World) -> None:
    world.server = ""
    relax(world.run, world.target)
    assert (world.variables, world.sets()) == (AS_IT_WAS, [])
    until_ordinary(world)


def test_copy_is_worthless_when_a_server_dies_without_doublewrite() -> None:
    world = make_world("11.8.6")
    relax(world.run, world.target)
    assert world.variables[DOUBLEWRITE] == "OFF"
    world.server = "99:2000"
    with pytest.raises(RemoteFailure) as failed:
        watch(world.run, at_once=True)
    assert failed.value.code == "copy.worthless"


@pytest.mark.parametrize("in_order", ["ON", "OFF"])
def test_relax_adds_mysql_appliers_only_with_commit_order(in_order: str) -> None:
    world = make_world("8.4.10", "mysql")
    world.applier = "Yes"
    world.variables |= {
        MYSQL_APPLIERS: "4",
        "replica_preserve_commit_order": in_order,
        DOUBLEWRITE: "DETECT_AND_RECOVER",
    }
    as_it_was = dict(world.variables)
    relax(world.run, world.target)
    assert (world.variables[MYSQL_APPLIERS], world.variables[DOUBLEWRITE]) == (
        "8" if in_order == "ON" else "4",
        "DETECT_ONLY",
    )
    until_ordinary(world)
    assert (world.variables, world.applier) == (as_it_was, "Yes")


def test_relax_restores_the_word_of_doublewrite() -> None:
    world = make_world("11.8.6")
    world.variables[DOUBLEWRITE] = "fast"
    relax(world.run, world.target)
    until_ordinary(world)
    assert world.variables[DOUBLEWRITE] == "fast"


def test_host_restart_is_harmless_after_the_flush(world: World) -> None:
    relax(world.run, world.target)
    until_ordinary(world)
    world.boot, world.server = "boot-2", "5:5"
    watch(world.run, at_once=True)
    until_ordinary(world)


def test_restore_runs_when_the_rebuild_ends_otherwise(world: World) -> None:
    relax(world.run, world.target)
    assert needs_sweep(world.run)
    restore_durability_at_end(world.run)
    assert world.variables == AS_IT_WAS
    assert not {"relaxed", "undurable"} & set(world.run.checkpoint)


def test_clean_up_marks_the_copy_worthless_after_a_host_restart(world: World) -> None:
    relax(world.run, world.target)
    world.boot, world.server = "boot-2", ""
    CleanUp().advance(world.run)
    assert world.run.checkpoint["worthless"]
    assert "relaxed" not in world.run.checkpoint


def test_verify_waits_until_settings_are_restored(world: World) -> None:
    world.applier = "Yes"
    relax(world.run, world.target)
    world.run.settings = replace(world.run.settings, verify_steady_seconds=60.0)
    world.jobs.play("settle", ended())
    for _ in range(10):
        Verify().advance(world.run)
    assert world.variables == AS_IT_WAS
    assert world.run.checkpoint["verify.steady_since"] == world.run.clock.now()
    world.run.clock.sleep(59)
    assert not Verify().advance(world.run).done
    world.run.clock.sleep(1)
    assert Verify().advance(world.run).done


def test_catch_up_progress_separates_applied_from_incoming() -> None:
    known = catch_up_progress([[0.0, -1000.0], [5.0, -600.0]], [[0.0, 0.0], [5.0, 100.0]], left=600, of="backup-1")
    assert (known["applied_per_second"], known["incoming_per_second"], known["eta_seconds"]) == (100.0, 20.0, 7.5)
    assert "falls_behind" not in known
    known = catch_up_progress([[0.0, -600.0], [5.0, -700.0]], [[0.0, 0.0], [5.0, 400.0]], left=700, of="backup-1")
    assert "eta_seconds" not in known
    assert known["falls_behind"]
