"""What the tests of jobs share; their fixtures are in ``conftest.py``."""

import fcntl
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbops.drivers.jobs import HostJobs
from dbops.engine.ports import Jobs, JobStatus, Shell

ABSENT, RUNNING, ENDED, VANISHED = JobStatus.ABSENT, JobStatus.RUNNING, JobStatus.ENDED, JobStatus.VANISHED
HOSTILE = ["a'b", 'a"b', "a;id", "a\nb", "$(id)", "`id`", "${HOME}", "*", "", " ", "-n", "\\"]

Maker = Callable[..., Any]


def make_real(shell: Shell, folder: Path) -> Maker:
    def make(
        token: int = 1,
        run_id: str = "run-1",
        over: Shell | None = None,
        key: str = "db1",
        dashboard: str = "dashboard-1",
    ) -> HostJobs:
        return HostJobs(
            over or shell,
            work_dir=f"{folder}/work 'dir'",
            instance_key=key,
            run_id=run_id,
            token=token,
            dashboard=dashboard,
        )

    return make


def end_sessions(folder: Path) -> None:
    """End what a failed test may have left: only sessions of this test's own journals that still hold their job's lock.

    A number alone proves nothing: once its session has ended, it may be another process's.
    """
    for file in folder.glob("work*/rebuilds/*/jobs/*/pid"):
        session = int(file.read_text().split()[0])
        if is_let_go(file.parent / "alive"):
            continue
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(") ")[2].split()
                if int(fields[3]) == session:
                    os.kill(int(stat.parent.name), signal.SIGKILL)
            except (OSError, IndexError):
                continue


def is_let_go(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def job_dir(jobs: Jobs, name: str) -> Path:
    return Path(jobs.run_directory) / "jobs" / name
