"""A stream over a link that was measured slower than the compressor: compressed on the source, expanded on the target."""

import json
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.brake import braked
from tests.stack import Stack, running_stack, wait_for

from .cancelling import at_step
from .looks import is_replicating, processes_of, same_data_at_one_gtid

pytestmark = pytest.mark.services
TARGET, SOURCE = "replica-1", "backup-1"


@pytest.fixture(scope="module")
def slow() -> Iterator[Stack]:
    """A lab whose link was measured to be slow."""
    with running_stack(web=False) as running:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        result = json.dumps({"rates": {"aes128-gcm@openssh.com": 11_000_000.0}, "ciphers_offered": ""})
        hosts = {row["name"]: row["id"] for row in running.rows("SELECT id, name FROM dbops_host")}
        running.write(
            "INSERT INTO dbops_connectiontest (kind, uid, requested_by, requested_at, status, finished_at, result, error,"
            " host_id, source_host_id) VALUES ('stream', 'slow', 'dbops', ?, 'passed', ?, ?, '{}', ?, ?)",
            *(now, now, result, hosts[TARGET], hosts[SOURCE]),
        )
        yield running


def last(stack: Stack) -> dict[str, Any]:
    [row] = stack.rows("SELECT * FROM dbops_rebuild ORDER BY id DESC LIMIT 1")
    return row


def test_a_rebuild_over_a_slow_link_is_compressed_and_whole(slow: Stack) -> None:
    slow.lab.load_start(tps=50)
    plan = slow.wait_for_possible_plan(TARGET)
    assert plan["compress_threads"] >= 1
    assert any("the link carries 10 MiB/s" in reason for reason in plan["stream_reasons"])
    slow.rebuild(TARGET)
    same_data_at_one_gtid(slow, TARGET)
    [step] = slow.rows("SELECT result FROM dbops_step WHERE name = 'stream' AND rebuild_id = ?", last(slow)["id"])
    copied = json.loads(step["result"])["bytes"]
    assert copied > 0.8 * plan["bytes_to_copy"], "what is told is what was unpacked, not what the link carried"
    commands = slow.rows("SELECT text FROM dbops_command WHERE rebuild_id = ? AND step = 'stream'", last(slow)["id"])
    assert any("zstd -q -1 -c" in row["text"] for row in commands)


@pytest.mark.parametrize("option", ["-1", "-d"])
def test_a_compressor_that_is_killed_ends_it_and_the_source_is_given_back(slow: Stack, option: str) -> None:
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
    assert processes_of(last(slow)["uid"]) == []


def compressor(option: str, uid: str) -> int | None:
    """Return the process that compresses (``-1``) or expands (``-d``) this run's stream."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            is_ours = uid in (path / "environ").read_text(errors="replace")
        except OSError:
            continue
        if is_ours and words[0].endswith(b"zstd") and option.encode() in words:
            return int(path.name)
    return None
