"""The job of a load test on a host, with a real server and without the dashboard: its limits, restarts, and how it ends."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dbops.engine.facts.instance import Tool
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.prepare import MIB
from dbops.engine.hosts.scripts import load
from dbops.engine.load_tests.copy import empty_copy
from dbops.engine.load_tests.facts import LoadTestFacts, LoadTestLimits
from dbops.engine.load_tests.job import SCRIPTS
from dbops.engine.load_tests.job_files import job_files
from dbops.engine.load_tests.plan import plan_load_test
from dbops.engine.load_tests.planned_rounds import rounds_of
from dbops.engine.load_tests.request import LoadTestRequest, Raised
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.workload import Profile, Workload
from tests.engine import builders
from tests.run_folder import new_folder, remove

pytestmark = pytest.mark.services
LOAD = Workload(Profile.POINT_SELECT, tables=1, table_rows=200)
ROUND = Round(number=1, step=1, threads=2, seconds=1, warm_up_seconds=0)


@dataclass
class Job:
    """The job in ``folder``, as the launcher starts it. ``programs`` come first in its path."""

    folder: Path
    uid: str = field(default_factory=lambda: uuid4().hex[:16])
    process: subprocess.Popen[str] | None = None

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def scratch(self) -> Path:
        return self.folder / "place" / f".dbops-load-test-{self.uid}"

    def put(self, name: str, text: str) -> None:
        """Put a program before the host's of that name."""
        (self.programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (self.programs / name).chmod(0o755)

    def start(
        self,
        *rounds: Round,
        workload: Workload = LOAD,
        words: dict[int, Any] | None = None,
        server_version: str = "10.11.19-MariaDB",
        **changes: Any,
    ) -> None:
        """Start it. ``words``: arguments of the script to replace, by number. ``changes``: of the plan."""
        request = LoadTestRequest("s", "h", workload, steps=(1,), raised=Raised.THREADS, pool_bytes=64 * MIB)
        host = replace(
            builders.host(1, cpu_count=2, hostname=os.uname().nodename), tools={"sysbench": Tool("/usr/bin/sysbench")}
        )
        flavor = flavor_for(server_version)
        facts = LoadTestFacts(flavor, None, host, str(self.folder), datetime(2026, 11, 26, tzinfo=UTC))
        limits = LoadTestLimits(directory=str(self.folder / "place"))
        plan = replace(plan_load_test(request, facts, rounds_of(request), limits), rounds=rounds or (ROUND,), **changes)
        copy = replace(empty_copy(self.uid, plan, host, flavor), machine="")
        for name, text in job_files(plan, workload, copy, flavor).items():
            (self.work / name).write_text(text)
        arguments = copy.arguments()
        for number, word in (words or {}).items():
            arguments[number - 1] = str(word)
        self.process = subprocess.Popen(
            ["bash", "-c", load(*SCRIPTS), "dbops", *arguments],
            cwd=self.work,
            env={**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}:/usr/sbin", "LC_ALL": "C"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def end(self, seconds: float = 60) -> tuple[int, str]:
        """Wait for the end. Return status and reason."""
        assert self.process
        said, _ = self.process.communicate(timeout=seconds)
        reasons = [line for line in said.splitlines() if line.startswith(("FAILED: ", "REFUSED: "))]
        return self.process.returncode, reasons[-1] if reasons else ""

    def until(self, what: str, seconds: float = 40) -> None:
        """Wait until a line of the progress or the steps begins so."""
        assert self.process
        deadline = time.monotonic() + seconds
        while not any(line.startswith(what) for line in self.lines("log.progress", "log.steps")):
            assert time.monotonic() < deadline
            assert self.process.poll() is None, self.process.communicate()[0]
            time.sleep(0.05)

    def lines(self, *names: str) -> list[str]:
        return [
            line
            for name in names
            if (self.work / name).exists()
            for line in (self.work / name).read_text().splitlines()
        ]

    def processes(self) -> list[Path]:
        """Return the processes of its session."""
        assert self.process
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                words = stat.read_text().rpartition(")")[2].split()
                if int(words[3]) == self.process.pid and words[0] != "Z":
                    found.append(stat.parent)
        return found


@pytest.fixture
def job() -> Iterator[Job]:
    folder = new_folder("load-job")
    made = Job(folder)
    for path in (made.programs, made.work, folder / "place"):
        path.mkdir()
    try:
        yield made
        assert not made.scratch.exists()
        assert not Path(f"/tmp/dbops-load-test-{made.uid}").exists()
        assert not list(Path("/sys/fs/cgroup").glob(f"*/dbops-load-test-{made.uid}"))
    finally:
        for process in made.processes() if made.process else ():
            os.kill(int(process.name), signal.SIGKILL)
        if made.process:
            made.process.communicate()
        words = ["bash", "-c", load("common", "scratch", "remove_load_test"), "dbops", str(folder / "place"), made.uid]
        subprocess.run(words, check=False, capture_output=True)
        remove(folder)


def starts(job: Job) -> int:
    return len(job.lines("starts"))


def counted_server(job: Job) -> None:
    """Let each start of the server add a line to ``starts``; the account of the data may write it."""
    (job.work.parent / "starts").touch(mode=0o666)
    (job.work.parent / "starts").chmod(0o666)
    (job.work / "starts").symlink_to(job.work.parent / "starts")
    real = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
    job.put("mariadbd", f'case "$*" in *--socket=*) echo >>{job.folder}/starts ;; esac\nexec {real} "$@"')


def test_first_round_of_an_arm_has_a_new_server_too(job: Job) -> None:
    counted_server(job)
    job.start(replace(ROUND, arm="a", pair=1), replace(ROUND, number=2, arm="b", pair=1))
    assert job.end() == (0, "")
    assert starts(job) == 3  # that of the fill, and one for each round


def test_job_and_server_are_the_first_that_the_kernel_kills(job: Job) -> None:
    job.start(replace(ROUND, seconds=60))
    job.until("begin 1 ")
    found = {}
    for path in job.processes():
        with suppress(OSError):  # it has just ended
            found[(path / "comm").read_text().strip()] = (path / "oom_score_adj").read_text().strip()
    assert {"bash", "mariadbd"} <= set(found)
    assert set(found.values()) == {"1000"}
    assert job.process
    job.process.send_signal(signal.SIGTERM)
    job.end()


def test_server_of_another_series_is_refused_before_anything_is_written(job: Job) -> None:
    job.start(version="11.4.2")
    status, said = job.end()
    assert (status, said.split()[:2]) == (65, ["REFUSED:", "version"])


def test_release_that_crashes_is_refused_if_the_plan_was_for_another(job: Job) -> None:
    job.put("mysqld", "echo 'mysqld  Ver 8.0.38 for Linux on x86_64'")
    job.start(version="8.0.40", server_version="8.0.40")
    status, said = job.end()
    assert (status, said.split()[:2]) == (65, ["REFUSED:", "version"])


def test_round_whose_generator_aborts_without_a_word_begins_again_once(job: Job) -> None:
    (job.folder / "aborted").touch()
    (job.folder / "aborted").chmod(0o666)
    real = shutil.which("sysbench")
    job.put(
        "sysbench",
        f'case "$*" in *" prepare") exec {real} "$@" ;; esac\n'
        f'[ -s {job.folder}/aborted ] || {{ echo 1 >{job.folder}/aborted; kill -ABRT $$; }}\nexec {real} "$@"',
    )
    job.start()
    assert job.end() == (0, "")
    assert "repeated_rounds=1" in job.lines("log.facts")
    assert [line.split()[0] for line in job.lines("log.progress")] == ["begin", "end"]


def test_round_that_aborts_twice_fails(job: Job) -> None:
    job.put("sysbench", f'case "$*" in *" prepare") exec {shutil.which("sysbench")} "$@" ;; esac\nkill -ABRT $$')
    job.start()
    assert job.end() == (70, "FAILED: round 1")


def test_large_share_of_the_file_system_must_stay_free(job: Job) -> None:
    job.start(floor_percent=99)
    status, said = job.end()
    assert (status, said.split()[:2]) == (65, ["REFUSED:", "space"])


@pytest.mark.parametrize("step", ["begin initialise", "begin fill", "begin 1 "])
def test_killed_shell_leaves_no_process_and_no_file(job: Job, step: str) -> None:
    if step == "begin initialise":
        job.put("mariadb-install-db", "exec sleep 100")
    rows = 20_000_000 if step == "begin fill" else 200
    job.start(replace(ROUND, seconds=100), workload=replace(LOAD, table_rows=rows), needed_bytes=2 * 1024 * MIB)
    job.until(step)
    assert job.process
    os.kill(job.process.pid, signal.SIGKILL)
    job.process.wait()
    deadline = time.monotonic() + 15
    while job.processes() or job.scratch.exists():
        assert time.monotonic() < deadline, [path.joinpath("cmdline").read_text() for path in job.processes()]
        time.sleep(0.1)


def test_limit_during_the_removal_is_not_the_reason(job: Job) -> None:
    job.put("rm", 'case "$*" in *dbops-load-test*) sleep 22 ;; esac\nexec /bin/rm "$@"')
    job.put("sysbench", f'case "$*" in *" prepare") exec {shutil.which("sysbench")} "$@" ;; esac\nexit 3')
    job.start(most_seconds=20)
    assert job.end() == (70, "FAILED: round 1")


def test_time_limit_while_a_backup_is_unpacked_reads_it_no_second_time(job: Job) -> None:
    packed = job.folder / "b.zst"
    packed.write_bytes(subprocess.run(["zstd", "-q", "-c"], input=b"x" * 9, capture_output=True, check=True).stdout)
    sum_ = hashlib.sha256(packed.read_bytes()).hexdigest()
    (job.folder / "b.zst.json").write_text(json.dumps({"run": "ab", "sha256": sum_}, indent=1))
    job.put("cat", f'[ "$(readlink /proc/$$/fd/0)" != {packed} ] || echo >>{job.work}/reads\nexec /bin/cat "$@"')
    job.put("unpacker", "exec sleep 100")
    words = {2: packed, 3: packed.stat().st_size, 4: "ab", 5: sum_, 15: "unpacker", 16: "true"}
    job.start(words=words, most_seconds=3)
    status, said = job.end(20)
    assert (status, said.split()[:2]) == (70, ["FAILED:", "time"])
    assert len(job.lines("reads")) == 1


#: A process in the group of the server ends in the way of "$1"; then the script says whether that was for its memory.
ENDED = """
set -u
scratch_kind=load-test id=$2 server_memory=67108864 server_list='' place=/nonexistent
choose_limit
[ "$limited_by" != ulimit ] || { echo skip; exit; }
hog='import sys; open("ready", "w").close(); sys.stdin.read(1); x = bytearray(int(sys.argv[1]))'
(limit_server; exec ${scope[@]+"${scope[@]}"} python3 -c "$hog" "$1" <go) & serving=$!
exec 5>go
until [ -e ready ]; do sleep 0.05; done
note_kills
[ "$1" != 0 ] || kill -KILL "$serving"
echo >&5
wait "$serving"
is_out_of_memory && echo "out of memory" || echo other
for group in /sys/fs/cgroup{,/memory}/"dbops-load-test-$id"; do rmdir "$group"; done
"""


@pytest.mark.parametrize(("size", "wanted"), [("0", "other"), (str(256 * MIB), "out of memory")])
def test_kernel_says_whether_memory_was_the_cause(tmp_path: Path, size: str, wanted: str) -> None:
    os.mkfifo(tmp_path / "go")
    script = load("common", "load_test_limits") + ENDED
    words = ["bash", "-c", script, "dbops", size, uuid4().hex[:16]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True)
    if done.stdout == "skip\n":
        pytest.skip("no group of processes can be limited here")
    assert done.stdout == f"{wanted}\n", done.stderr


def test_kernel_that_counts_no_kills_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("oom_kill_disable 0\nunder_oom 0\n")
    script = load("common", "load_test_limits") + "limited_by=cgroup1 events=events kills=''; is_out_of_memory"
    assert subprocess.run(["bash", "-c", script], cwd=tmp_path, check=False).returncode == 1
