"""The folder of a test run: all temporary files of the run are in it. When the run ends, its processes and the folder go.

The first process of the run makes the folder and removes it, also after SIGTERM, SIGINT or SIGHUP. A second process, the warden,
waits for the end of the first one and removes what is left, also after SIGKILL. Both find the processes of the run by the
folder's path, which each of them has in its environment, its arguments or its working directory.
"""

import atexit
import functools
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import TYPE_CHECKING

from lab.processes import is_gone, start_detached, working_for

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]
#: The variable with the folder of the run, with a slash at its end.
VARIABLE = "DBOPS_TESTS_FOLDER"
#: Short, as paths of sockets are limited; outside of /tmp, as the server's user must reach it.
PARENT = "/var/tmp"
PATIENCE_SECONDS = 20
_removals: list[Thread] = []
_has_workers = False


def parent() -> str:
    """Return the folder for temporary files: the run's, or /var/tmp outside of a test run."""
    return os.environ.get(VARIABLE, PARENT)


def new_folder(name: str) -> Path:
    """Make a folder that other users can enter."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent()))
    folder.chmod(0o755)
    return folder


@functools.cache
def shared() -> Path:
    """Return the folder of what the processes of a run make once and share; outside of a run, one of this process alone."""
    if VARIABLE in os.environ:
        folder = Path(parent()) / "shared"
        folder.mkdir(exist_ok=True)
        return folder
    folder = new_folder("dbops")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def remove(folder: Path) -> None:
    """Remove a folder in the background: the disk takes seconds for the files of a few servers."""
    thread = Thread(target=shutil.rmtree, args=(folder,), kwargs={"ignore_errors": True})
    thread.start()
    _removals.append(thread)


def begin(config: "pytest.Config") -> None:
    """Make the folder and start its warden. Workers of this process use its folder."""
    global _has_workers  # noqa: PLW0603 - the hook of an interrupt is not given the configuration
    if hasattr(config, "workerinput"):
        return
    _has_workers = bool(getattr(config.option, "numprocesses", None))
    folder = new_folder("dbops")
    warden = ["env", "-C", str(ROOT), sys.executable, "-m", "tests.run_folder", str(os.getpid()), str(folder)]
    start_detached(warden, Path("/dev/null"))
    os.environ[VARIABLE] = f"{folder}/"
    # Programs that are killed leave files where TMPDIR says; each user of a server may write there.
    temporary = folder / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    config.option.basetemp = config.option.basetemp or str(folder / "pytest")
    config.add_cleanup(lambda: clear(folder))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def end_workers() -> None:
    """End the workers of an interrupted run and all that they started: each would wait for the end of its test."""
    if _has_workers:
        end_all(Path(parent()))


def clear(folder: Path) -> None:
    """End all processes of the folder and remove it."""
    end_all(folder)
    for thread in _removals:
        thread.join()
    for place in _mounted_below(folder):
        subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def end_all(folder: Path) -> None:
    """Kill the processes of the folder until there are none: one that is killed may just have started another."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := working_for(folder)) and time.monotonic() < deadline:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        while not all(is_gone(pid) for pid in found) and time.monotonic() < deadline:
            time.sleep(0.02)


def _mounted_below(folder: Path) -> list[str]:
    places = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [place for place in places if place.startswith(f"{folder}/")]


def watch(pid: int, folder: Path) -> None:
    """Wait for the end of a process, then clear its folder."""
    try:
        select.select([os.pidfd_open(pid)], [], [])
    except ProcessLookupError:
        pass  # it has ended already
    clear(folder)


if __name__ == "__main__":
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    watch(int(sys.argv[1]), Path(sys.argv[2]))
