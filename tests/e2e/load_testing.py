"""Requests of load tests in a lab, and what they must leave: nothing, and untouched servers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.stack import Stack, wait_for

from .test_managed_backup import SOURCE, backups_of
from .test_restore_tests import command_lines, servers

MIB = 1024**2
FINAL = ("succeeded", "failed", "cancelled")


def request_of(stack: Stack, **changes: Any) -> dict[str, Any]:
    """Return a small request: point selects on an empty server, one step of a second."""
    workload = {"profile": "point-select", "tables": 1, "table_rows": 500} | changes.pop("workload", {})
    host = stack.rows(
        "SELECT h.name FROM dbops_host h JOIN dbops_instance i ON i.host_id = h.id WHERE i.name = ?", SOURCE
    )
    return {
        **{"source": SOURCE, "host": host[0]["name"], "workload": workload, "steps": [2], "repeats": 1, "seconds": 1},
        **{"warm_up_seconds": 0, "pool_bytes": 64 * MIB, "most_seconds": 600},
        **changes,
    }


def rotating(run: int, **changes: Any) -> dict[str, Any]:
    """Return a request of rotating schemas over the lab's own schema."""
    workload = {"profile": "rotating-schemas", "schema": "sbtest", "row_share": 0.1, "seconds_on_schema": 0.05}
    workload |= {"statements": ["SELECT COUNT(*) FROM sbtest1", "SELECT id FROM sbtest1 WHERE id = 5"]}
    return {"run": run, "workload": workload, "raised": "schemas", "threads": 2, **changes}


def manage(stack: Stack, *words: str, request: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    stdin = json.dumps(request) if request else ""
    done = stack.manage("load_test", *words, "--json", stdin=stdin, check=False, timeout=400)
    assert done.stdout, f"{done.stderr}{stack.tail('worker')}"
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def run_load_test(stack: Stack, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Run a load test to its end. Return the exit status and the result."""
    return manage(stack, "start", "-", "--confirm", request["host"], "--reason", "a test", "--watch", request=request)


def begin(stack: Stack, request: dict[str, Any], step: str, *, confirm: str = "") -> dict[str, Any]:
    """Start a load test and wait until it is in a step. ``confirm``: what is typed; by default the host."""
    words = ("--confirm", confirm or request["host"], "--reason", "a test")
    status, found = manage(stack, "start", "-", *words, request=request)
    assert status == 0, found
    pk = found["load_test"]

    def has_begun() -> bool:
        row = load_test_of(stack, pk)
        assert row["status"] not in FINAL, row["error"]
        return f'"{step}"' in row["steps"]

    wait_for(f"step {step}", has_begun, 60)
    return load_test_of(stack, pk)


def load_test_of(stack: Stack, pk: int) -> dict[str, Any]:
    return stack.rows("SELECT * FROM dbops_loadtest WHERE id = ?", pk)[0]


def wait_for_end(stack: Stack, pk: int, seconds: float = 90) -> dict[str, Any]:
    wait_for(f"the end of load test {pk}", lambda: load_test_of(stack, pk)["status"] in FINAL, seconds)
    return load_test_of(stack, pk)


def cancel(stack: Stack, pk: int) -> dict[str, Any]:
    status, found = manage(stack, "cancel", str(pk), "--reason", "enough")
    assert status == 0, found
    return wait_for_end(stack, pk)


def job_of(stack: Stack, uid: str) -> Path:
    return stack.lab.host(SOURCE).work_dir / "rebuilds" / uid / "jobs" / "load-test"


def left(stack: Stack) -> list[str]:
    """Return the files and processes of load tests that are left."""
    uids = [row["uid"] for row in stack.rows("SELECT uid FROM dbops_loadtest")]
    places = [backups_of(stack), stack.lab.host(SOURCE).work_dir]
    found = [path for place in places for path in place.glob(".dbops-load-test-*")]
    found += [
        path
        for uid in uids
        for path in (Path(f"/tmp/dbops-load-test-{uid}"), *Path("/sys/fs/cgroup").glob(f"*/dbops-load-test-{uid}"))
    ]
    processes = [" ".join(words) for _, words in command_lines() if any(uid in " ".join(words) for uid in uids)]
    return [str(path) for path in found if path.exists()] + processes


@contextmanager
def unchanged(stack: Stack) -> Iterator[None]:
    """Check that nothing is left behind, and that the same servers run."""
    before = servers(stack)
    yield
    assert left(stack) == []
    assert servers(stack) == before
