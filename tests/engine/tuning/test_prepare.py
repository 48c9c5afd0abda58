"""What a copy is prepared with, by tool and version, and that it never takes more memory than there is."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.facts.instance import Tool
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.jobs import IN_BASH
from dbops.engine.hosts.scripts import load
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.start.prepare_and_start import Prepare
from dbops.engine.tuning.prepare import PrepareReason, choose, within_what_is_free
from tests.engine.builders import GIB, datadir, facts, host, inputs, member, server, source_with
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs, FakeShell, running

MIB = 1024**2
GROUND = PrepareReason(free_bytes=64 * GIB, cpu_count=8, redo_capacity_bytes=GIB)
MARIADB, MYSQL = "10.11.19-MariaDB", "8.0.46"


def chosen(
    server_version: str, tool_version: str | None, ground: PrepareReason = GROUND
) -> tuple[int, tuple[str, ...]]:
    found = choose(flavor_for(server_version).prepare_habits(tool_version), ground)
    assert all(reason.endswith(".") for reason in found.reasons)
    return found.memory_bytes, found.options


@pytest.mark.parametrize(
    ("server_version", "tool_version", "memory_bytes", "options"),
    [
        (MARIADB, "10.11.19", 3 * GIB, ()),
        ("11.8.6-MariaDB", "11.8.6", 3 * GIB, ()),
        (MARIADB, None, 3 * GIB, ()),
        ("10.4.34-MariaDB", "10.4.34", 3 * GIB, ("--innodb-read-io-threads=8",)),
        ("5.7.44", "2.4.29", 4 * GIB, ("--innodb-read-io-threads=8",)),
        (MYSQL, "8.0.29", 4 * GIB, ("--innodb-read-io-threads=8",)),
        (MYSQL, "8.0.35", 4 * GIB, ("--innodb-read-io-threads=8", "--use-free-memory-pct=60")),
        ("8.4.6", "8.4.0", 4 * GIB, ("--innodb-read-io-threads=8", "--use-free-memory-pct=60")),
        # a tool of unknown version gets only options that an older one takes
        (MYSQL, None, 4 * GIB, ("--innodb-read-io-threads=8",)),
    ],
)
def test_prepare_options_fit_each_tool(
    server_version: str, tool_version: str | None, memory_bytes: int, options: tuple[str, ...]
) -> None:
    assert chosen(server_version, tool_version) == (memory_bytes, options)


@pytest.mark.parametrize(("cores", "threads"), [(2, None), (4, None), (12, 12), (96, 16)])
def test_read_threads_follow_the_cores_when_they_apply_redo(cores: int, threads: int | None) -> None:
    _, options = chosen(MYSQL, "8.0.29", replace(GROUND, cpu_count=cores))
    assert options == ((f"--innodb-read-io-threads={threads}",) if threads else ())


@pytest.mark.parametrize(
    ("free", "memory_bytes"),
    [
        (64 * GIB, 3 * GIB),
        (4 * GIB, 2 * GIB),
        (GIB, 512 * MIB),
        (128 * MIB, 96 * MIB),  # the tool's own: it would take that anyway
    ],
)
def test_prepare_memory_stays_within_the_free_amount(free: int, memory_bytes: int) -> None:
    assert chosen(MARIADB, "10.11.19", replace(GROUND, free_bytes=free))[0] == memory_bytes


def test_prepare_memory_includes_redo_written_during_the_copy() -> None:
    known = replace(GROUND, redo_bytes_per_second=10 * MIB, copy_seconds=300.0)
    found = choose(flavor_for(MARIADB).prepare_habits("10.11.19"), known)
    assert found.memory_bytes == 12 * GIB
    assert "2.93 GiB" in found.reasons[0]


def test_prepare_reason_names_the_best_memory_when_short() -> None:
    found = choose(flavor_for(MARIADB).prepare_habits("10.11.19"), replace(GROUND, free_bytes=2 * GIB))
    assert all(word in found.reasons[0] for word in ("60%", " 2 GiB", " 3 GiB"))


@pytest.mark.parametrize(
    ("planned", "free", "memory_bytes"),
    [
        (4 * GIB, 64 * GIB, 4 * GIB),
        (4 * GIB, 4 * GIB, 3 * GIB),
        (4 * GIB, 300 * MIB, 192 * MIB),
        (4 * GIB, 0, 96 * MIB),
    ],
)
def test_less_free_memory_than_planned_is_not_exceeded(planned: int, free: int, memory_bytes: int) -> None:
    assert within_what_is_free(planned, free) == memory_bytes


def with_memory(free_bytes: int, **source: float) -> PlanInputs:
    target = facts(13, host=host(13, memory_available_bytes=free_bytes))
    return inputs(target=member("replica-1", "replica", 13, facts=target), source=source_with(**source))


def test_plan_has_prepare_memory_reasons_and_command() -> None:
    plan = build_plan(with_memory(64 * GIB))
    command = next(step for step in plan.steps if step.name == "prepare").commands[0].text
    assert plan.prepare_memory_bytes == 3 * GIB
    assert f"--use-memory={3 * GIB}" in command
    assert len(plan.prepare_reasons) == 2


def test_prepare_options_use_the_tool_version_of_the_target() -> None:
    tools = {"xtrabackup": Tool("/usr/bin/xtrabackup", "8.0.29")}
    source = member("backup-1", "backup", 12, facts=facts(12, server=server(12, flavor="mysql", version="8.0.28")))
    target = member("replica-1", "replica", 13, facts=facts(13, host=host(13, tools=tools), datadir=datadir(13)))
    assert build_plan(inputs(source=source, target=target)).prepare_options == ("--innodb-read-io-threads=8",)


def test_memory_that_follows_free_memory_and_writes_changes_no_fingerprint() -> None:
    plans = [
        build_plan(with_memory(64 * GIB)),
        build_plan(with_memory(2 * GIB)),
        build_plan(with_memory(64 * GIB, redo_bytes_per_second=3e6)),
    ]
    assert len({plan.prepare_memory_bytes for plan in plans}) == 3
    assert len({plan.fingerprint for plan in plans}) == 1


# --- the step ---------------------------------------------------------------------------------------------------------
PLAN = build_plan(with_memory(64 * GIB))
BEGUN = {
    "new_identity": "8:1",
    "checkpoints": {"backup_type": "full-backuped", "to_lsn": 1000, "last_lsn": 3000},
}


def run_with(jobs: FakeJobs, found: RecordedJournal | None = None, **checkpoint: Any) -> Run:
    database = FakeDatabase()
    journal = found or RecordedJournal()
    return make_run(
        PLAN, jobs, source=database, target=database, journal=journal, clock=FakeClock(), **{**BEGUN, **checkpoint}
    )


def jobs_on_a_host_with(free_bytes: int | None) -> FakeJobs:
    jobs = FakeJobs()
    if free_bytes is not None:
        jobs.expect("MemAvailable", f"free_bytes={free_bytes}\n")
    return jobs


@pytest.mark.parametrize(
    ("free", "taken"),
    [
        (64 * GIB, 3 * GIB),
        (2 * GIB, 1536 * MIB),
        (None, 3 * GIB),  # the host does not say
    ],
)
def test_prepare_step_uses_less_memory_when_less_is_free(free: int | None, taken: int) -> None:
    jobs = jobs_on_a_host_with(free)
    Prepare().start(run_with(jobs))
    assert f"--use-memory={taken}" in jobs.job("prepare").arguments


def test_memory_is_looked_at_once_for_the_tool_that_runs_has_taken_it() -> None:
    jobs = jobs_on_a_host_with(64 * GIB)
    run = run_with(jobs)
    Prepare().start(run)
    Prepare().start(run)
    assert len(jobs.acts) == 1


def test_free_memory_script_reads_the_host() -> None:
    said = FakeShell(runs_here=True).run(IN_BASH, load("free_memory")).stdout
    assert int(said.removeprefix("free_bytes=")) > 64 * MIB


def test_prepare_step_reports_reads_writes_and_percent() -> None:
    found = RecordedJournal()
    state = running(
        counters={"prepare.disk_read_bytes": 5, "prepare.disk_write_bytes": 7},
        tails={
            "prepare": "InnoDB: Starting crash recovery from checkpoint LSN=1000\nInnoDB: To recover: LSN 2000/3000; 9 pages"
        },
    )
    Prepare().follow(run_with(FakeJobs(), found), state)
    assert (found.figures.disk_read_bytes, found.figures.disk_written_bytes) == (5, 7)
    assert found.known["percent"] == 50.0
