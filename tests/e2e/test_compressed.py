"""A stream over a link that was measured slower than the compressor: compressed on the source, expanded on the target."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.programs import backup_tool
from tests.said import names
from tests.slow_process import braked
from tests.stack import Stack, running_stack, wait_for

from .cancelling import at_step
from .host_state import is_replicating, processes_of, same_data_at_one_gtid

pytestmark = pytest.mark.services
TARGET, SOURCE, MIB = "replica-1", "backup-1", 1024**2


@contextmanager
def slow_link(flavor: str = "mariadb") -> Iterator[Stack]:
    """Run a lab whose link was measured to be slow."""
    with running_stack(web=False, flavor=flavor) as running:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        result = json.dumps({"rates": {"aes128-gcm@openssh.com": 11_000_000.0}, "ciphers_offered": ""})
        hosts = {row["name"]: row["id"] for row in running.rows("SELECT id, name FROM dbops_host")}
        running.write(
            "INSERT INTO dbops_connectiontest (kind, uid, requested_by, requested_at, status, finished_at, result, error,"
            " host_id, source_host_id) VALUES ('stream', 'slow', 'dbops', ?, 'passed', ?, ?, '{}', ?, ?)",
            *(now, now, result, hosts[TARGET], hosts[SOURCE]),
        )
        yield running


@pytest.fixture(scope="module")
def slow() -> Iterator[Stack]:
    with slow_link() as running:
        yield running


def last(stack: Stack) -> dict[str, Any]:
    [row] = stack.rows("SELECT * FROM dbops_rebuild ORDER BY id DESC LIMIT 1")
    return row


def test_slow_link_rebuild_is_compressed_and_complete(slow: Stack) -> None:
    slow.lab.load_start(tps=50)
    plan = slow.wait_for_possible_plan(TARGET)
    assert plan["compress_threads"] >= 1
    assert not plan["compresses_itself"]
    assert any(names(reason, backup_tool(slow.lab.host(SOURCE)), "zstd") for reason in plan["stream_reasons"])
    assert any(names(reason, "10 MiB/s") for reason in plan["stream_reasons"])
    slow.rebuild(TARGET)
    same_data_at_one_gtid(slow, TARGET)
    [step] = slow.rows(
        "SELECT result FROM dbops_rebuildstep WHERE name = 'stream' AND rebuild_id = ?", last(slow)["id"]
    )
    copied = json.loads(step["result"])["bytes"]
    assert copied > 0.8 * plan["bytes_to_copy"], "the logged bytes were unpacked, not sent over the link"
    commands = slow.rows(
        "SELECT text FROM dbops_executedcommand WHERE rebuild_id = ? AND step = 'stream'", last(slow)["id"]
    )
    assert any("zstd -q -1 -c" in row["text"] for row in commands)


def test_compressed_stream_keeps_the_rate_of_the_link(slow: Stack) -> None:
    """The rate is that of the link: what is unpacked is some times as much."""
    slow.wait_for_possible_plan(TARGET)
    later = f"at:{datetime.now(UTC) + timedelta(hours=2):%Y%m%dT%H%M00Z}"
    slow.manage("rebuild", TARGET, "--reason", "a test", "--start", later)
    # refused while the newest facts are of the load's writes, which the redo log would not outlast
    wait_for(
        "facts without load", lambda: slow.manage("rebuild", TARGET, "--rate", "1", check=False).returncode == 0, 60
    )
    key = last(slow)["id"]
    slow.write("UPDATE dbops_rebuild SET not_before = NULL WHERE id = ?", key)
    wait_for("bytes of the stream", lambda: unpacked(slow, key) > 0, 60)
    began, before = time.monotonic(), unpacked(slow, key)
    time.sleep(10)
    wait_for("a newer count", lambda: unpacked(slow, key) > before, 30)
    seen = (unpacked(slow, key) - before) / (time.monotonic() - began)
    assert 0.5 * MIB < seen < 8 * MIB, f"{seen / MIB:.1f} MiB/s"
    assert last(slow)["status"] == "running"
    slow.manage("rebuild", TARGET, "--rate", "0")
    wait_for("its end", lambda: last(slow)["status"] not in ("running", "lost"), 120)
    assert last(slow)["status"] == "succeeded", last(slow)["error"]
    same_data_at_one_gtid(slow, TARGET)


def unpacked(stack: Stack, key: int) -> int:
    [row] = stack.rows("SELECT progress FROM dbops_rebuildstep WHERE name = 'stream' AND rebuild_id = ?", key)
    return int(json.loads(row["progress"]).get("bytes") or 0)


@pytest.mark.parametrize("option", ["-1", "-d"])
def test_killed_compressor_fails_the_rebuild_and_releases_the_source(slow: Stack, option: str) -> None:
    """On either side: whatever the tool's last line says, the copy is not taken for whole."""
    slow.wait_for_possible_plan(TARGET)

    def kill() -> None:
        pid = wait_for("the compressor", lambda: compressor(option, last(slow)["uid"]), 30)
        os.kill(pid, signal.SIGKILL)

    with braked(slow.lab.host(TARGET), share=0.05), at_step(slow, "stream", kill):
        status, _ = slow.rebuild(TARGET, check=False)
    assert status == 1
    assert json.loads(last(slow)["error"])["code"].startswith("stream.")
    wait_for("the source replicates", lambda: is_replicating(slow, SOURCE), 30)
    wait_for("the run's processes have ended", lambda: processes_of(last(slow)["uid"]) == [], 30)


def compressor(option: str, uid: str) -> int | None:
    """Return the process that compresses (``-1``) or expands (``-d``) this run's stream."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            directory = path / "fd" / "99"  # of the run on the source, where the environment names no run
            is_ours = uid in (path / "environ").read_text(errors="replace") or uid in str(directory.readlink())
        except OSError:
            continue
        if is_ours and words[0].endswith(b"zstd") and option.encode() in words:
            return int(path.name)
    return None
