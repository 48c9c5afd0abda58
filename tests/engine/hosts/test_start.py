"""Start of a copy, run for real: a server that a person started first counts only on data that was made quiet."""

import getpass
import subprocess
from pathlib import Path

import pytest

from dbops.engine.hosts.jobs import REFUSED_STATUS
from dbops.engine.hosts.scripts import load
from tests.engine.hosts.target_host import TargetHost, target_host

RUN, DATADIR = "0123456789abcdef", "/var/lib/mysql"
SCRIPT = load("common", "inside", "server_log", "service", "quiet_copy", "start")
#: A program in place of the server that makes the data quiet: it must not be needed where no event exists.
QUIET, NOT_QUIET = ["mariadb", "/bin/false", "", "SLAVE", "1", "/bin/false"], ["", "", "", "", "0"]


def start(host: TargetHost, job: Path, quiet: list[str], command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the start job in the directory of one run."""
    job.mkdir(exist_ok=True)
    datadir = host.place(DATADIR)
    words = [datadir, host.identity(DATADIR), RUN, getpass.getuser(), "/no/my.cnf", "", *quiet, *command]
    return subprocess.run(
        ["bash", "-c", SCRIPT, "start", *map(str, words)],
        cwd=job,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def server_command(host: TargetHost) -> list[str]:
    """Return a start command after which a process of a server's name runs on the data."""
    return [
        "bash",
        "-c",
        'cd "$1" && exec setsid -f "$2" 60 >/dev/null 2>&1',
        "-",
        str(host.place(DATADIR)),
        str(host.root / "mariadbd"),
    ]


def add_copy(host: TargetHost) -> None:
    host.add_directory("copy", DATADIR)
    (host.place(DATADIR) / f".dbops-{RUN}").touch()


def end_server(host: TargetHost) -> None:
    """End what the start command left behind."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "exe").resolve() == (host.root / "mariadbd").resolve():
                subprocess.run(["kill", "-9", process.name], check=False)
        except OSError:
            continue


@pytest.mark.parametrize(("quiet", "status"), [(QUIET, REFUSED_STATUS), (NOT_QUIET, 0)])
def test_server_on_a_copy_that_is_not_quiet_is_refused(tmp_path: Path, quiet: list[str], status: int) -> None:
    with target_host() as host:
        add_copy(host)
        host.add_process("by hand", "copy")
        done = start(host, tmp_path / "job", quiet, ["/bin/false"])
        assert done.returncode == status, done
        assert not (tmp_path / "job" / "log.phase").exists()


@pytest.mark.parametrize("is_kept", [True, False])
def test_persisted_settings_of_the_source_are_removed(tmp_path: Path, is_kept: bool) -> None:
    with target_host() as host:
        add_copy(host)
        folder = host.place(DATADIR)
        persisted = folder / "mysqld-auto.cnf"
        persisted.write_text("of the target")
        kept = folder / f".dbops-{RUN}.inside"
        if is_kept:
            subprocess.run(["tar", "-c", "-f", kept, persisted.name], cwd=folder, check=True, timeout=60)
        persisted.write_text("of the source")
        for _ in range(2):  # the second as a resume of a start that failed
            failed = start(host, tmp_path / "job", QUIET, ["/bin/false"])
            assert failed.returncode not in (0, REFUSED_STATUS), failed
            assert persisted.exists() == is_kept
            assert not is_kept or persisted.read_text() == "of the target"
        assert not kept.exists()


def test_copy_that_was_made_quiet_is_known_to_later_runs(tmp_path: Path) -> None:
    with target_host() as host:
        add_copy(host)
        failed = start(host, tmp_path / "first", QUIET, ["/bin/false"])
        assert failed.returncode not in (0, REFUSED_STATUS), failed
        assert (tmp_path / "first" / "log.phase").read_text()
        try:
            started = start(host, tmp_path / "first", QUIET, server_command(host))
            assert started.returncode == 0, started
            for job in ("first", "resumed"):
                again = start(host, tmp_path / job, QUIET, ["/bin/false"])
                assert again.returncode == 0, again
        finally:
            end_server(host)
