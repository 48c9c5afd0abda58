"""Load generators on another host, for real: they reach the scratch server through SSH, and nothing is left on either host."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stack import Stack, wait_for

from .load_testing import (
    begin,
    cancel,
    job_of,
    load_test_of,
    manage,
    request_of,
    rotating,
    run_load_test,
    unchanged,
    wait_for_end,
)
from .test_load_tests import comm, kill, processes_of_session, programs_of
from .test_managed_backup import SOURCE, backup_stack
from .test_restore_tests import command_lines, good_backup

pytestmark = pytest.mark.services

GENERATOR = "replica-1"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with backup_stack(1, files="physical") as running:
        request = request_of(running, generator_host=GENERATOR)
        running.wait_for_probe("the tools", lambda: manage(running, "plan", "-", request=request)[0] == 0)
        yield running


@pytest.fixture(scope="module")
def run(stack: Stack) -> int:
    return good_backup(stack)


@pytest.fixture(autouse=True)
def untouched(stack: Stack) -> Iterator[None]:
    with unchanged(stack):
        yield
    assert left_for_generators(stack) == []


def left_for_generators(stack: Stack) -> list[str]:
    """Return what is left of load generators: directories, keys, runs, processes."""
    found = []
    for row in stack.rows("SELECT uid FROM dbops_loadtest"):
        uid = row["uid"]
        found += [str(path) for path in [Path(f"/tmp/dbops-load-generator-{uid}")] if path.exists()]
        for name in (SOURCE, GENERATOR):
            host = stack.lab.host(name)
            run = host.work_dir / "rebuilds" / f"g{uid}"
            found += [str(run)] if run.exists() else []
            found += (
                [f"key of {uid} on {name}"] if f"dbops-g{uid}" in (host.folder / "authorized_keys").read_text() else []
            )
        found += [" ".join(words)[:300] for _, words in command_lines() if any(uid in word for word in words)]
    return found


def elsewhere(stack: Stack, **changes: Any) -> dict[str, Any]:
    return request_of(stack, generator_host=GENERATOR, **changes)


@pytest.mark.runs("MariaDB 10.11", "load test")
def test_generator_on_another_host_measures_the_scratch_server(stack: Stack) -> None:
    status, result = run_load_test(stack, elsewhere(stack, steps=[1, 4], seconds=2))
    assert (status, result["error"]) == (0, {}), result["error"]
    report = result["report"]
    assert report["Total"]["QueryCount"] > 100
    assert report["Total"]["ErrorQueryCount"] == 0
    for round_ in report["Rounds"]:
        assert round_["GeneratorCores"] > 0
        assert 0 < round_["TunnelCores"] <= 1.1
    [audited] = stack.rows(
        "SELECT detail FROM dbops_auditentry WHERE action = 'load_test.requested' ORDER BY id DESC LIMIT 1"
    )
    assert json.loads(audited["detail"])["generator_host"] == GENERATOR


@pytest.mark.runs("MariaDB 10.11", "load test")
def test_rotating_schemas_are_sent_from_another_host(stack: Stack, run: int) -> None:
    request = elsewhere(stack, **rotating(run, steps=[10, 30], repeats=1, seconds=2))
    status, result = run_load_test(stack, request)
    assert (status, result["error"]) == (0, {}), result["error"]
    assert [step["SchemasVisited"] for step in result["report"]["Steps"]] == [10, 30]


#: A generator that fills or measures for longer than any test.
LONG = {
    "fill": {"workload": {"profile": "write-only", "tables": 1, "table_rows": 20_000_000}},
    "rounds": {"seconds": 300},
}


def running(stack: Stack, step: str) -> dict[str, Any]:
    """Start a load test and wait until its generator runs on the other host."""
    load_test = begin(stack, elsewhere(stack, **LONG[step]), step)
    wait_for("the generator", lambda: generators_of(load_test), 30)
    return load_test


def generators_of(load_test: dict[str, Any]) -> list[int]:
    return [pid for pid in programs_of(load_test["uid"]) if comm(pid) == "sysbench"]


def processes(load_test: dict[str, Any], *words: str) -> list[int]:
    """Return the processes of a load test whose command line has these words."""
    return [
        pid
        for pid, line in command_lines()
        if any(load_test["uid"] in word for word in line) and all(word in line for word in words)
    ]


@pytest.mark.parametrize("step", LONG)
def test_cancel_ends_the_generator_on_the_other_host(stack: Stack, step: str) -> None:
    ended = cancel(stack, running(stack, step)["id"])
    assert (ended["status"], ended["has_leftovers"], ended["host_slot"]) == ("cancelled", 0, None), ended["error"]


@pytest.mark.parametrize("step", LONG)
def test_killed_job_ends_the_generator_on_the_other_host(stack: Stack, step: str) -> None:
    load_test = running(stack, step)
    for pid in processes_of_session(job_of(stack, load_test["uid"])):
        kill(pid)
    wait_for("the end of the generator", lambda: not generators_of(load_test), 15)
    ended = wait_for_end(stack, load_test["id"])
    error = json.loads(ended["error"])
    assert (ended["status"], ended["has_leftovers"], error["code"]) == ("failed", 0, "load_test.vanished"), error


def victims(load_test: dict[str, Any], what: str) -> list[int]:
    if what == "generator":
        return generators_of(load_test)
    if what == "ssh":
        return [pid for pid in programs_of(load_test["uid"]) if comm(pid) == "ssh"]
    if what == "forced command":
        return [pid for pid in programs_of(f"g{load_test['uid']}/serve") if comm(pid) == "bash"]
    side = what.removeprefix("relay of the ")
    return [pid for pid in processes(load_test, "-c", side) if comm(pid).startswith("python")]


@pytest.mark.parametrize(
    ("what", "codes"),
    [
        ("generator", {"load_test.generator"}),
        ("relay of the generator", {"load_test.connection"}),
        ("relay of the server", {"load_test.generator"}),
        ("ssh", {"load_test.connection"}),
    ],
)
def test_killed_part_ends_the_load_test_with_its_code(stack: Stack, what: str, codes: set[str]) -> None:
    load_test = running(stack, "rounds")
    for pid in wait_for(what, lambda: victims(load_test, what), 20):
        kill(pid)
    ended = wait_for_end(stack, load_test["id"])
    error = json.loads(ended["error"])
    assert (ended["status"], ended["has_leftovers"]) == ("failed", 0), error
    assert error["code"] in codes, error


def test_everything_killed_on_the_generator_host_leaves_nothing(stack: Stack) -> None:
    load_test = running(stack, "rounds")
    for what in ("forced command", "relay of the generator", "generator"):
        for pid in victims(load_test, what):
            kill(pid)
    ended = wait_for_end(stack, load_test["id"])
    error = json.loads(ended["error"])
    assert (ended["status"], ended["has_leftovers"], error["code"]) == ("failed", 0, "load_test.connection"), error


def test_killed_worker_is_replaced_and_the_test_ends_well(stack: Stack) -> None:
    load_test = begin(stack, elsewhere(stack, seconds=20), "rounds")
    stack.stop("worker", signal.SIGKILL)
    stack.start("worker")
    ended = wait_for_end(stack, load_test["id"])
    assert (ended["status"], json.loads(ended["error"])) == ("succeeded", {})
    assert json.loads(ended["report"])["FinishedRounds"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs programs as others")
def test_nothing_of_the_generator_runs_as_root_but_ssh(stack: Stack) -> None:
    load_test = running(stack, "rounds")
    users = {
        (comm(pid), Path(f"/proc/{pid}").stat().st_uid)
        for what in ("generator", "relay of the generator", "relay of the server")
        for pid in victims(load_test, what)
    }
    assert {user for _, user in users} == {65534}
    cancel(stack, load_test["id"])


def test_key_of_the_generator_runs_no_other_command(stack: Stack) -> None:
    load_test = running(stack, "rounds")
    run = stack.lab.host(SOURCE).work_dir / "rebuilds" / f"g{load_test['uid']}"
    [ssh] = victims(load_test, "ssh")
    words = Path(f"/proc/{ssh}/cmdline").read_text().split("\0")[:-2]
    assert str(run / "key") in words
    for command, status in (("id", 64), ("round-7", 64), ("round-1; id", 64), ("check", 0)):
        done = subprocess.run([*words, command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert (done.returncode, "uid=" in done.stdout) == (status, False), done
    forwarded = subprocess.run(
        [*words[:-2], "-N", "-o", "ExitOnForwardFailure=yes", "-R", f"{run}/s:/tmp/s", *words[-2:]],
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert forwarded.returncode == 255, forwarded
    cancel(stack, load_test["id"])


def test_generator_host_that_is_gone_is_cleaned_when_it_answers_again(stack: Stack) -> None:
    load_test = running(stack, "rounds")
    sshd = stack.lab.host(GENERATOR).sshd
    sshd.stop()
    try:
        ended = wait_for_end(stack, load_test["id"])
        error = json.loads(ended["error"])
        assert (ended["status"], ended["has_leftovers"], error["code"]) == ("failed", 1, "load_test.connection"), error
        assert not generators_of(load_test), "it ends with its connection"
    finally:
        sshd.start()
    wait_for("the sweep", lambda: not load_test_of(stack, load_test["id"])["has_leftovers"], 120)
    stack.wait_for_probe("the host", lambda: stack.facts(GENERATOR)["host"], GENERATOR)


def test_backup_and_generator_can_be_on_the_same_other_host(stack: Stack, run: int) -> None:
    request = request_of(stack, **rotating(run, steps=[5], repeats=1, seconds=2)) | {
        "host": GENERATOR,
        "generator_host": SOURCE,
    }
    status, result = run_load_test(stack, request)
    assert (status, result["error"]) == (0, {}), result["error"]
    assert result["report"]["GeneratorHost"] == SOURCE
