"""Load tests, for real: a scratch server beside running servers that notice nothing, and gone again however it ends."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.stack import Stack, wait_for

from .host_state import one
from .load_testing import (
    begin,
    cancel,
    job_of,
    manage,
    request_of,
    rotating,
    run_load_test,
    unchanged,
    wait_for_end,
)
from .test_managed_backup import SOURCE, backup_stack, held_program
from .test_restore_tests import command_lines, good_backup, restore_test_of, slow_prepare
from .test_restore_tests import wait_for_end as wait_for_restore_test

pytestmark = pytest.mark.services
#: Connections that probes and backups of the test itself may make in that time; a generator makes some for each round.
PROBES = 60


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with backup_stack(1, files="physical") as running:
        yield running


@pytest.fixture(scope="module")
def run(stack: Stack) -> int:
    return good_backup(stack)


@pytest.fixture(autouse=True)
def untouched(stack: Stack) -> Iterator[None]:
    with unchanged(stack):
        yield


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def comm(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def programs_of(uid: str) -> list[int]:
    """Return the processes with the id of a load test in their command lines."""
    return [pid for pid, words in command_lines() if any(uid in word for word in words)]


def processes_of_session(job: Path) -> list[int]:
    """Return the wrapper of a job and every process of its session."""
    leader = int((job / "pid").read_text().split()[0])
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == leader:
                found.append(int(stat.parent.name))
    return sorted(found)


def connections(stack: Stack) -> int:
    return int(one(stack, SOURCE, "SHOW GLOBAL STATUS LIKE 'Connections'")["Value"])


@pytest.mark.runs("MariaDB 10.11", "load test")
def test_empty_server_is_measured_and_removed(stack: Stack) -> None:
    status, result = run_load_test(stack, request_of(stack))
    assert (status, result["status"], result["error"]) == (0, "succeeded", {}), result["error"]
    assert [step["name"] for step in result["steps"]] == [
        "check",
        "initialise",
        "start",
        "fill",
        "rounds",
        "stop",
        "remove",
    ]
    assert {step["state"] for step in result["steps"]} == {"done"}
    facts, total = result["report"]["Facts"], result["report"]["Total"]
    assert facts["version"].startswith("10.11.")
    assert facts["limited_by"] in ("systemd", "cgroup2", "cgroup1", "ulimit")
    assert total["QueryCount"] > 100
    assert total["Duration"]["P99"] > 0


@pytest.mark.runs("MariaDB 10.11", "load test")
def test_restored_backup_carries_rotating_schemas_and_the_source_notices_nothing(stack: Stack, run: int) -> None:
    before = connections(stack)
    request = request_of(stack, **rotating(run, steps=[10, 30], repeats=1, seconds=2))
    status, result = run_load_test(stack, request)
    assert (status, result["error"]) == (0, {}), result["error"]
    assert [step["name"] for step in result["steps"]] == [
        *("check", "unpack", "prepare", "start", "fill", "rounds", "stop", "remove")
    ]
    report = result["report"]
    assert [step["TargetSchemaCount"] for step in report["Steps"]] == [10, 30]
    for step in report["Steps"]:
        assert step["ErrorQueryCount"] == 0
        assert 0 < step["Duration"]["P50"] <= step["Duration"]["P99"] <= step["Duration"]["P999"]
        assert step["Waits"]
    assert set(report["Knees"]) == {"P95", "P99"}
    assert connections(stack) - before <= PROBES, "the generator talked to a serving server"
    audited = [
        row["action"]
        for row in stack.rows("SELECT action FROM dbops_auditentry WHERE action LIKE 'load_test.%' ORDER BY id")
    ]
    assert audited[-3:] == ["load_test.requested", "load_test.started", "load_test.succeeded"]


def test_arms_of_an_ab_test_restart_the_server_with_their_options(stack: Stack) -> None:
    request = request_of(
        stack,
        workload={"profile": "write-only", "tables": 1, "table_rows": 1000},
        raised="nothing",
        threads=2,
        options_a=[["innodb_doublewrite", "ON"]],
        options_b=[["innodb_doublewrite", "OFF"]],
        most_pairs=10,
        aa_pairs=3,
        wanted_width=100.0,
    )
    status, result = run_load_test(stack, request)
    assert (status, result["error"]) == (0, {}), result["error"]
    # any interval is narrow enough: the job ends after the least numbers of pairs, or a round that had begun by then
    assert 14 <= result["rounds"] < 26
    assert result["report"]["Facts"]["ended"] == "enough"
    written = [
        round_["Counters"]["Innodb_dblwr_writes"] for round_ in result["report"]["Rounds"] if round_["Arm"] == "b"
    ]
    assert not any(written)
    assert result["report"]["Comparison"]["ab"]["pairs"] >= 4


def test_inserts_follow_the_table_of_the_request(stack: Stack) -> None:
    workload = {
        "profile": "insert",
        "table_ddl": "CREATE TABLE `o``rders` (id BIGINT PRIMARY KEY, shop INT, note VARCHAR(20))",
    }
    workload["key_ranges"] = [["id", 1, 2**62], ["shop", 1, 100]]
    status, result = run_load_test(stack, request_of(stack, workload=workload, raised="rate", threads=2, steps=[50]))
    assert (status, result["error"]) == (0, {}), result["error"]
    assert result["report"]["Total"]["QueryCount"] > 20


#: How long each step lasts, so that a test can catch it.
LONG_FILL = {"profile": "write-only", "tables": 1, "table_rows": 20_000_000}


@contextmanager
def caught(stack: Stack, run: int, step: str) -> Iterator[dict[str, Any]]:
    """Give a load test that is in a step and would stay there."""
    with ExitStack() as held:
        if step in ("unpack", "prepare"):
            request = request_of(stack, **rotating(run, steps=[2]))
            held.enter_context(slow_prepare(stack) if step == "prepare" else held_program(stack, SOURCE, "zstd"))
        elif step == "initialise":
            request = request_of(stack)
            held.enter_context(held_program(stack, SOURCE, "mariadb-install-db"))
        else:
            request = request_of(stack, workload=LONG_FILL) if step == "fill" else request_of(stack, seconds=300)
        yield begin(stack, request, step)


STEPS = ["unpack", "prepare", "initialise", "fill", "rounds"]


@pytest.mark.parametrize("step", STEPS)
def test_cancelled_load_test_leaves_nothing(stack: Stack, run: int, step: str) -> None:
    with caught(stack, run, step) as load_test:
        ended = cancel(stack, load_test["id"])
    assert (ended["status"], ended["has_leftovers"], ended["host_slot"]) == ("cancelled", 0, None), ended["error"]


@pytest.mark.parametrize("step", STEPS)
def test_killed_job_leaves_nothing(stack: Stack, run: int, step: str) -> None:
    with caught(stack, run, step) as load_test:
        for pid in processes_of_session(job_of(stack, load_test["uid"])):
            kill(pid)
        ended = wait_for_end(stack, load_test["id"])
    error = json.loads(ended["error"])
    assert (ended["status"], ended["has_leftovers"], error["code"]) == ("failed", 0, "load_test.vanished"), error


@pytest.mark.parametrize(
    ("name", "code"),
    [("sysbench", {"load_test.generator"}), ("mariadbd", {"load_test.server_ended", "load_test.killed"})],
)
def test_killed_program_ends_the_load_test_with_its_code(stack: Stack, run: int, name: str, code: set[str]) -> None:
    with caught(stack, run, "rounds") as load_test:
        pids = wait_for(name, lambda: [pid for pid in programs_of(load_test["uid"]) if comm(pid) == name], 20)
        kill(pids[0])
        ended = wait_for_end(stack, load_test["id"])
    error = json.loads(ended["error"])
    assert (ended["status"], ended["has_leftovers"]) == ("failed", 0)
    assert error["code"] in code, error


def test_killed_worker_is_replaced_and_the_test_ends_well(stack: Stack) -> None:
    load_test = begin(stack, request_of(stack, seconds=20), "rounds")
    stack.stop("worker", signal.SIGKILL)
    stack.start("worker")
    ended = wait_for_end(stack, load_test["id"])
    assert (ended["status"], json.loads(ended["error"])) == ("succeeded", {})
    assert json.loads(ended["report"])["FinishedRounds"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs programs as others")
def test_scratch_server_cannot_write_a_file_of_a_serving_server(stack: Stack) -> None:
    data = stack.lab.host(SOURCE).data_dir
    serving = data / "precious"
    serving.write_bytes(b"rows")
    os.chown(serving, data.stat().st_uid, data.stat().st_gid)
    load_test = begin(stack, request_of(stack, seconds=300), "rounds")
    wait_for("sysbench", lambda: "sysbench" in map(comm, programs_of(load_test["uid"])), 20)
    users = {(comm(pid), Path(f"/proc/{pid}").stat().st_uid) for pid in programs_of(load_test["uid"])}
    assert {("mariadbd", 65534), ("sysbench", 65534)} <= users
    # a statement that no check stopped
    ask = ["mariadb", "--no-defaults", f"--socket=/tmp/dbops-load-test-{load_test['uid']}/run/s", "--user=root", "-e"]
    written = f"SET GLOBAL general_log_file='{serving}'; SET GLOBAL general_log=ON; SELECT 'more'"
    done = subprocess.run([*ask, written], capture_output=True, text=True, check=False)
    cancel(stack, load_test["id"])
    assert serving.read_bytes() == b"rows", done
    assert "ERROR 2002" not in done.stderr, "the statements did not reach the scratch server"
    serving.unlink()


def test_time_limit_ends_the_load_test(stack: Stack) -> None:
    workload = {"tables": 8, "table_rows": 2_000_000}  # filling them takes longer
    status, result = run_load_test(stack, request_of(stack, workload=workload, most_seconds=11, steps=[1]))
    assert (status, result["error"]["code"]) == (1, "load_test.time"), result["error"]


def test_stale_plan_and_wrong_name_are_refused(stack: Stack) -> None:
    request = request_of(stack)
    for words, code in (
        (["--confirm", "another"], "load_test.name"),
        (["--confirm", request["host"], "--fingerprint", "0" * 64], "load_test.stale"),
    ):
        status, result = manage(stack, "start", "-", *words, "--reason", "a test", request=request)
        assert (status, result["error"]["code"]) == (2, code), result


def test_restore_test_and_load_test_of_a_host_wait_for_each_other(stack: Stack, run: int) -> None:
    load_test = begin(stack, request_of(stack, seconds=300), "rounds")
    pk = json.loads(stack.manage("backup", "--restore-test", str(run), "--json").stdout.splitlines()[-1])[
        "restore_test"
    ]
    wait_for("the queue", lambda: restore_test_of(stack, pk)["waiting_for"], 20)
    assert restore_test_of(stack, pk)["status"] == "queued"
    cancel(stack, load_test["id"])
    assert wait_for_restore_test(stack, pk)["status"] == "succeeded"


@pytest.fixture
def small_disk(stack: Stack, tmp_path: Path) -> Iterator[Path]:
    """Give load tests a small file system for their scratch directories."""
    place = tmp_path / "small"
    place.mkdir(mode=0o755)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1700M,mode=0755", "dbops-test", str(place)], check=False)
    if done.returncode:
        pytest.skip("mounting is not permitted here")
    for parent in place.parents[:3]:
        parent.chmod(0o755)
    stack.environment["DBOPS_LOAD_TEST_DIRECTORY"] = str(place)
    try:
        yield place
    finally:
        del stack.environment["DBOPS_LOAD_TEST_DIRECTORY"]
        assert not list(place.glob(".dbops-load-test-*"))
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_disk_that_fills_up_ends_the_load_test_with_its_code(stack: Stack, small_disk: Path) -> None:
    load_test = begin(stack, request_of(stack, seconds=300), "rounds")
    with (small_disk / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, os.statvfs(small_disk).f_bavail * 4096 - 900 * 1024**2)
    ended = wait_for_end(stack, load_test["id"])
    error = json.loads(ended["error"])
    assert (ended["status"], ended["has_leftovers"], error["code"]) == ("failed", 0, "load_test.space"), error


def test_test_that_does_not_fit_is_refused_by_the_host(stack: Stack, small_disk: Path) -> None:
    workload = {"profile": "write-only", "tables": 10, "table_rows": 10_000_000}
    status, result = run_load_test(stack, request_of(stack, workload=workload))
    assert (status, result["error"]["code"]) == (1, "load_test.space"), result["error"]
    assert [step["name"] for step in result["steps"]] == ["check"]
