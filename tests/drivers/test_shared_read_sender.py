"""The sender that reads one backup for several targets (``shared_read_sender.py``), as its own processes, with real pipes."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbops.engine.hosts.scripts import load_python
from dbops.engine.rebuilds.steps.commands import COMPRESSED
from tests.stack import wait_for

MEGABYTES = 24
BUFFER = 1 << 20
#: What a target leaves in the pipe on its way: of the sender, of the leader's own.
IN_PIPES = 4 << 20


class Source:
    """A run directory on the source with its sender, and the targets that take from it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, []
        self.leader = self._directory("leader")

    def _directory(self, name: str) -> Path:
        directory = self.folder / name
        directory.mkdir()
        (directory / "shared_read.py").write_text(load_python("shared_read_sender"))
        return directory

    def tool(self, *command: str) -> None:
        (self.leader / "backup.argv").write_bytes(b"".join(word.encode() + b"\0" for word in command))

    def send(self, *names: str, stall: int = 2, wait: int = 20) -> "subprocess.Popen[str]":
        words = [sys.executable, "shared_read.py", "send", str(stall), str(wait), str(BUFFER), *names]
        sender = subprocess.Popen(words, cwd=self.leader, stdout=subprocess.PIPE, text=True)
        self.processes.append(sender)
        wait_for("the sender listens", (self.leader / "shared_read.sock").exists, 60)
        return sender

    def take(self, name: str, out: int = subprocess.PIPE) -> "subprocess.Popen[bytes]":
        directory = self.leader if name == "leader" else self._directory(name)
        words = [sys.executable, "shared_read.py", "take", str(self.leader), name]
        taker = subprocess.Popen(words, cwd=directory, stdout=out, stderr=subprocess.PIPE)
        self.processes.append(taker)
        return taker

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(60)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    made = Source(tmp_path)
    data = tmp_path / "data"
    data.write_bytes(os.urandom(1 << 20) * MEGABYTES)
    made.tool(
        "bash",
        "-c",
        'echo "completed OK!" >&2; mkdir -p "$2/tool/run/lsn"; echo 1 >"$2/tool/run/lsn/info"; cat "$1"',
        "x",
        str(data),
        str(made.leader),
    )
    try:
        yield made
    finally:
        made.end()


def digest_of(taker: "subprocess.Popen[bytes]") -> str:
    assert taker.stdout is not None
    return hashlib.sha256(taker.stdout.read()).hexdigest()


def wanted(source: Source) -> str:
    return hashlib.sha256((source.folder / "data").read_bytes()).hexdigest()


def digests(*takers: "subprocess.Popen[bytes]") -> list[str]:
    """All are read at one time: one that is not read would stall."""
    readers = [subprocess.Popen(["sha256sum"], stdin=taker.stdout, stdout=subprocess.PIPE) for taker in takers]
    return [reader.communicate(timeout=60)[0].split()[0].decode() for reader in readers]


def test_every_target_gets_every_byte_and_the_status(source: Source) -> None:
    sender = source.send("leader", "b", "c")
    takers = [source.take(name) for name in ("leader", "b", "c")]
    assert digests(*takers) == [wanted(source)] * 3
    assert [taker.wait(60) for taker in takers] == [0, 0, 0]
    assert sender.wait(60) == 0
    for name in ("leader", "b", "c"):
        assert (source.folder / name / "backup.log").read_text() == "completed OK!\n"
        assert (source.folder / name / "backup.status").read_text() == "0\n"
        assert (source.folder / name / "lsn" / "info").read_text() == "1\n"
    assert not (source.folder / "b" / "backup.log").is_symlink()


def test_stalled_target_is_dropped_and_others_finish(source: Source) -> None:
    sender = source.send("leader", "b")
    stalled, other = source.take("b"), source.take("leader")  # the first is never read
    assert digests(other) == [wanted(source)]
    assert (other.wait(60), stalled.wait(60), sender.wait(60)) == (0, 74, 0)
    assert stalled.stderr is not None
    assert b"it took no byte for" in stalled.stderr.read()
    assert not (source.folder / "b" / "backup.status").exists()


def test_disconnected_target_is_dropped_and_others_finish(source: Source) -> None:
    source.send("leader", "b")
    broken, other = source.take("b"), source.take("leader")
    assert broken.stdout is not None
    broken.stdout.read(1 << 16)
    broken.stdout.close()
    broken.stdout = None
    assert digests(other) == [wanted(source)]
    assert (other.wait(60), broken.wait(60)) == (0, 74)


def test_killed_taker_is_dropped_and_others_finish(source: Source) -> None:
    source.send("leader", "b")
    killed, other = source.take("b"), source.take("leader")
    assert killed.stdout is not None
    killed.stdout.read(1 << 16)
    killed.kill()
    assert digests(other) == [wanted(source)]
    assert other.wait(60) == 0


def test_status_of_the_tool_reaches_every_target(source: Source) -> None:
    source.tool("bash", "-c", "echo begun; echo broken >&2; exit 3")
    sender = source.send("leader", "b")
    takers = [source.take("leader"), source.take("b")]
    digests(*takers)
    assert [taker.wait(60) for taker in takers] == [3, 3]
    assert sender.wait(60) == 1
    assert (source.folder / "b" / "backup.log").read_text() == "broken\n"
    assert (source.folder / "b" / "backup.status").read_text() == "3\n"


def test_sender_begins_without_a_late_target(source: Source) -> None:
    sender = source.send("leader", "late", wait=1)
    other = source.take("leader")
    assert digests(other) == [wanted(source)]
    assert sender.stdout is not None
    assert re.search(r"^late\b.* 0 bytes", sender.stdout.read(), re.MULTILINE)
    late = source.take("late")
    assert late.wait(60) == 74
    assert late.stderr is not None
    assert re.search(rb"^dbops: .* 0 bytes", late.stderr.read(), re.MULTILINE)


def test_sender_skips_a_target_marked_as_gone(source: Source) -> None:
    """The source is paused during the read."""
    source.send("leader", "b", "c", wait=3600)
    takers = [source.take("leader"), source.take("b")]
    (source.leader / "gone.c").touch()
    assert digests(*takers) == [wanted(source)] * 2


def test_sender_serves_a_target_marked_as_gone_after_it_came(source: Source) -> None:
    sender = source.send("leader", "b", wait=3600)
    first = source.take("b")
    assert sender.stdout is not None
    assert sender.stdout.readline().startswith("b ")
    (source.leader / "gone.b").touch()
    assert digests(first, source.take("leader")) == [wanted(source)] * 2


def test_sender_ends_at_once_when_all_targets_are_gone(source: Source) -> None:
    sender = source.send("leader", "b", wait=3600)
    for name in ("leader", "b"):
        (source.leader / f"gone.{name}").touch()
    assert sender.wait(60) == 75
    assert not (source.leader / "backup.pid").exists()


def test_unexpected_target_gets_no_data(source: Source) -> None:
    source.send("leader")
    stranger = source.take("stranger")
    assert (digest_of(stranger), stranger.wait(60)) == (hashlib.sha256(b"").hexdigest(), 74)
    assert digests(source.take("leader")) == [wanted(source)]


def test_tool_is_killed_without_targets_even_if_it_ignores_sigterm(source: Source) -> None:
    source.tool("bash", "-c", 'trap "" TERM PIPE; while :; do echo x 2>/dev/null; sleep 0.01; done')
    sender = source.send("leader")
    taker = source.take("leader")
    assert taker.stdout is not None
    taker.stdout.read(2)
    pid = int((source.leader / "backup.pid").read_text().split()[0])
    taker.send_signal(signal.SIGKILL)
    assert sender.wait(60) == 1
    assert not os.path.exists(f"/proc/{pid}")


def test_sender_buffers_a_bounded_amount_for_a_slow_target(source: Source) -> None:
    """Memory of the source's host: a fast target waits for a slow one, and nothing piles up."""
    sender = source.send("leader", "b", stall=30)
    slow, fast = source.take("b"), source.take("leader")
    reader = subprocess.Popen(["bash", "-c", "cat | wc -c"], stdin=fast.stdout, stdout=subprocess.PIPE)
    time.sleep(1.5)
    resident = next(
        int(line.split()[1]) << 10
        for line in Path(f"/proc/{sender.pid}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    assert resident < 40 << 20
    assert digests(slow) == [wanted(source)]
    assert reader.communicate(timeout=60)[0].split() == [str(MEGABYTES << 20).encode()]


def test_second_sender_of_a_run_sends_nothing(source: Source) -> None:
    source.send("leader")
    taker = source.take("leader")
    assert digests(taker) == [wanted(source)]
    again = subprocess.run(
        [sys.executable, "shared_read.py", "send", "2", "1", str(BUFFER), "leader"],
        cwd=source.leader,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (again.returncode, again.stdout.count("\n")) == (75, 1)


def compress(source: Source, script: str, *, zstd: str = "zstd") -> None:
    """Let the backup be what a shell prints, compressed in the pipe."""
    source.tool(
        "bash", "-c", COMPRESSED, "compressed", "2", zstd, "bash", "-c", script, "x", str(source.folder / "data")
    )


def expanded(*takers: "subprocess.Popen[bytes]") -> list[tuple[str, int]]:
    """Return the digest of what each target expands, and how its ``zstd`` ends, as ``stream.sh`` runs it."""
    script = "set -o pipefail; zstd -q -d -c | sha256sum"
    readers = [
        subprocess.Popen(["bash", "-c", script], stdin=taker.stdout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for taker in takers
    ]
    return [(reader.communicate(timeout=60)[0].split()[0].decode(), reader.returncode) for reader in readers]


def test_stream_is_compressed_once_and_expanded_by_each_target(source: Source) -> None:
    compress(source, 'echo "completed OK!" >&2; cat "$1"')
    sender = source.send("leader", "b", "c")
    takers = [source.take(name) for name in ("leader", "b", "c")]
    assert expanded(*takers) == [(wanted(source), 0)] * 3
    assert [taker.wait(60) for taker in takers] == [0, 0, 0]
    assert sender.wait(60) == 0
    for name in ("leader", "b", "c"):
        assert (source.folder / name / "backup.log").read_text() == "completed OK!\n"
        assert (source.folder / name / "backup.status").read_text() == "0\n"


def test_failed_tool_fails_every_target_despite_the_compressor(source: Source) -> None:
    """What the compressor sends has a proper end then: its status alone would say that all is well."""
    compress(source, 'head -c 3000000 "$1"; echo broken >&2; exit 3')
    sender = source.send("leader", "b")
    takers = [source.take("leader"), source.take("b")]
    assert [status for _, status in expanded(*takers)] == [0, 0]
    assert [taker.wait(60) for taker in takers] == [3, 3]
    assert sender.wait(60) == 1
    assert [(source.folder / name / "backup.status").read_text() for name in ("leader", "b")] == ["3\n"] * 2


@pytest.mark.parametrize(
    ("compressor", "status"), [("kill -9 $BASHPID", 137), ("exit 1", 1)], ids=["killed", "ended with an error"]
)
def test_failed_compressor_fails_every_target(source: Source, compressor: str, status: int) -> None:
    """It has taken everything, the tool is content and says so: only the compressor knows that the rest is not sent."""
    broken = source.folder / "zstd-that-breaks"
    broken.write_text(f"#!/bin/bash\nzstd -q -1 -c | head -c 2000000\ncat >/dev/null\n{compressor}\n")
    broken.chmod(0o700)
    compress(source, 'cat "$1"; echo "completed OK!" >&2; exit 0', zstd=str(broken))
    sender = source.send("leader", "b")
    takers = [source.take("leader"), source.take("b")]
    assert all(code != 0 and digest != wanted(source) for digest, code in expanded(*takers))
    assert [taker.wait(60) for taker in takers] == [status] * 2
    assert sender.wait(60) == 1
    assert [(source.folder / name / "backup.status").read_text() for name in ("leader", "b")] == [f"{status}\n"] * 2


def test_tool_and_compressor_are_killed_without_targets(source: Source) -> None:
    compress(source, 'trap "" INT TERM PIPE; while :; do head -c 1000000 "$1" 2>/dev/null; sleep 0.01; done')
    sender = source.send("leader")
    taker = source.take("leader")
    assert taker.stdout is not None
    taker.stdout.read(2)
    group = int((source.leader / "backup.pid").read_text().split()[0])
    taker.send_signal(signal.SIGKILL)
    assert sender.wait(60) == 1
    wait_for("all of the group is gone", lambda: not lives(group), 10)


def lives(group: int) -> bool:
    """Tell whether anything of a process group is left but what waits to be reaped."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[2]) == group and words[0] != "Z":
            return True
    return False
