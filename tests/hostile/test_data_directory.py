"""The data directory's own account attacks while root stops, moves, prepares, rolls back and removes: root's files stay as they are.

Each test repeats a step while the account exchanges names in a tight loop, or plants a link before the step.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from dbops.engine.hosts.scripts import load
from tests.drivers.test_probe import ask
from tests.fakes import FakeShell
from tests.stack import wait_for

from .attacker import ACCOUNT, NOBODY, as_account, attack, exchange
from .ground import RUN, SECRET, Ground

REFUSED = 65
TRIES = 12


def run(ground: Ground, script: str, *words: object, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run a host's script as root in a directory that only root can enter."""
    job = ground.folder / "job"
    job.mkdir(mode=0o700, exist_ok=True)
    return subprocess.run(
        ["bash", "-c", script, "dbops", *map(str, words)],
        cwd=job,
        env={"PATH": path + os.environ["PATH"], "DBOPS_JOB_DIR": str(job), "DBOPS_RUN_DIR": str(job), "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def swap(ground: Ground, aside: str, *, path: str = "") -> subprocess.CompletedProcess[str]:
    words = [ground.data, ground.identity(ground.data), "0", "", "", "", aside, ACCOUNT, "true", RUN, "", "", "true"]
    return run(ground, load("common", "inside", "service", "swap_datadir"), *words, path=path)


def roll_back(ground: Ground, aside: Path, failed: Path) -> subprocess.CompletedProcess[str]:
    words = [ground.data, RUN, aside, ground.identity(aside), failed, "13", "", "true", "", ACCOUNT, "true"]
    return run(ground, load("common", "service", "rollback"), *words)


def remove(ground: Ground, old: Path, identity: str) -> subprocess.CompletedProcess[str]:
    return run(ground, load("common", "remove_old"), old, identity, ACCOUNT)


def set_ownership(ground: Ground) -> subprocess.CompletedProcess[str]:
    words = [ground.data, ground.identity(ground.data), RUN, ACCOUNT, "backup-my.cnf"]
    return run(ground, load("common", "set_ownership"), *words)


def mark(ground: Ground) -> Path:
    return ground.data / f".dbops-{RUN}"


def is_mount_point(ground: Ground) -> str:
    """Return a search path in which every directory is a mount point."""
    folder = ground.folder / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / "mountpoint"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    return f"{folder}:"


class Exchanger:
    """The account exchanges its directory with a link to root's, or with root's own beside it, again and again."""

    def __init__(self, ground: Ground, name: Path, *, with_neighbour: bool = False) -> None:
        self.name, self.other = name, ground.neighbour if with_neighbour else name.with_name("zz-link")
        self.roots = ground.roots

    def plant(self) -> None:
        if not self.other.exists():
            os.symlink(self.roots, self.other)

    def __call__(self) -> None:
        exchange(self.name, self.other)
        exchange(self.name, self.other)


STEPS: dict[str, Callable[[Ground], object]] = {
    "swap, old data is kept": lambda ground: swap(ground, f"{ground.data}.dbops-old-{RUN}"),
    "swap, old data is removed": lambda ground: swap(ground, ""),
    "set ownership": set_ownership,
    "rollback": lambda ground: roll_back(
        ground, Path(f"{ground.data}.dbops-old-{RUN}"), Path(f"{ground.data}.dbops-failed-{RUN}")
    ),
}


@pytest.mark.parametrize("with_neighbour", [False, True], ids=["link", "directory of root"])
@pytest.mark.parametrize("name", STEPS)
def test_exchanged_directory_never_leads_to_roots_files(ground: Ground, name: str, with_neighbour: bool) -> None:
    """The parent belongs to the account, so the name of the data directory does too."""
    for _ in range(TRIES):
        ground.make(parent_of=ACCOUNT)
        as_account(mark(ground).touch)
        if name == "rollback":
            ground.fill(Path(f"{ground.data}.dbops-old-{RUN}"))
        attacker = Exchanger(ground, ground.data, with_neighbour=with_neighbour)
        as_account(attacker.plant)
        with attack(attacker), suppress(FileNotFoundError):  # while the name was read for the step's arguments
            STEPS[name](ground)
        assert ground.state() == ground.before


def test_inner_directory_exchanged_for_a_link_keeps_its_owner(ground: Ground) -> None:
    """``chown`` by path once gave the account a file of root's: here one of the same name as a file that was not the account's."""
    for _ in range(TRIES):
        ground.make()
        for number in range(200):
            (ground.data / "shop" / f"{number}").write_text("")
            (ground.roots / f"{number}").write_text("")
        ground.before = ground.state()
        as_account(mark(ground).touch)
        attacker = Exchanger(ground, ground.data / "shop")
        as_account(attacker.plant)
        with attack(attacker):
            set_ownership(ground)
        assert ground.state() == ground.before


def test_removal_of_old_data_removes_nothing_behind_exchanged_names(ground: Ground) -> None:
    for number in range(TRIES):
        ground.make(parent_of=ACCOUNT if number % 2 else "root")
        old = ground.data.rename(f"{ground.data}.dbops-old-{RUN}")
        identity = ground.identity(old)
        attacker = Exchanger(ground, old if number % 2 else old / "shop")
        as_account(attacker.plant)
        with attack(attacker):
            remove(ground, old, identity)
        assert ground.state() == ground.before


@pytest.mark.parametrize("aside", [f".dbops-old-{RUN}", f".dbops-failed-{RUN}"])
def test_link_planted_for_moved_data_receives_nothing(ground: Ground, aside: str) -> None:
    """On a mount point both places are inside the data directory, where the account can write."""
    path = is_mount_point(ground)
    as_account(lambda: os.symlink(ground.roots, ground.data / aside))
    if "old" in aside:
        assert swap(ground, f"{ground.data}/{aside}", path=path).returncode != 0
    else:
        as_account(mark(ground).touch)
        ground.fill(ground.data / f".dbops-old-{RUN}")
        roll_back(ground, ground.data / f".dbops-old-{RUN}", ground.data / aside)
    assert ground.state() == ground.before


def test_swap_refuses_a_path_that_another_account_can_exchange(ground: Ground) -> None:
    shutil.chown(ground.parent, NOBODY)
    ended = swap(ground, f"{ground.data}.dbops-old-{RUN}")
    assert ended.returncode == REFUSED, ended
    assert (ground.data / "ibdata1").read_text() == "ibdata1"


@pytest.mark.parametrize(
    ("parent_of", "mode", "above", "is_refused"),
    [
        ("root", 0o755, 0o755, False),
        ("root", 0o775, 0o755, True),
        ("root", 0o755, 0o1777, False),
        ("root", 0o755, 0o777, True),
        ("root", 0o1777, 0o755, False),
        (ACCOUNT, 0o755, 0o777, False),
        (NOBODY, 0o755, 0o755, True),
        (NOBODY, 0o1777, 0o755, False),
    ],
)
def test_plan_and_script_agree_on_who_can_exchange_the_directory(
    ground: Ground, parent_of: str, mode: int, above: int, is_refused: bool
) -> None:
    """An account that can write in the directory above can exchange it; what the account itself can do, root leaves to the account."""
    ground.make(parent_of=parent_of)
    ground.parent.chmod(mode)
    ground.folder.chmod(above)
    datadir = ask(FakeShell(runs_here=True), ground.data).datadir
    assert datadir is not None
    assert bool(datadir.exchangeable) is is_refused
    ended = run(ground, load("common") + '\nbecome "$2"\nmust_enter_directory_of "$1"', ground.data, ACCOUNT)
    assert ended.returncode == (REFUSED if is_refused else 0)


def test_swap_refuses_a_directory_of_another_account_in_the_data(ground: Ground) -> None:
    """The owner could not remove it, and root removes nothing there."""
    (ground.data / "of-root").mkdir()
    ended = swap(ground, "")
    assert ended.returncode == REFUSED, ended
    assert (ground.data / "ibdata1").read_text() == "ibdata1"


@pytest.mark.parametrize("parent_of", ["root", ACCOUNT])
def test_swap_and_rollback_work_without_an_attack(ground: Ground, parent_of: str) -> None:
    """The control: the tests above would pass with scripts that do nothing."""
    ground.make(parent_of=parent_of)
    aside, failed = Path(f"{ground.data}.dbops-old-{RUN}"), Path(f"{ground.data}.dbops-failed-{RUN}")
    ended = swap(ground, str(aside))
    assert ended.returncode == 0, ended
    assert (ground.data.owner(), mark(ground).owner(), oct(ground.data.stat().st_mode)[-3:]) == (
        ACCOUNT,
        ACCOUNT,
        "750",
    )
    assert (aside / "ibdata1").exists()
    assert roll_back(ground, aside, failed).returncode == 0
    assert (ground.data / "ibdata1").exists()
    assert remove(ground, failed, ground.identity(failed)).returncode == 0
    assert sorted(path.name for path in ground.parent.iterdir()) == ["data", ground.neighbour.name]


def test_files_of_other_accounts_in_old_data_are_removed_where_names_are_roots(ground: Ground) -> None:
    old = ground.data.rename(f"{ground.data}.dbops-old-{RUN}")
    (old / "of-root").mkdir(mode=0o700)
    (old / "of-root" / "file").write_text("")
    assert remove(ground, old, ground.identity(old)).returncode == 0
    assert not old.exists()


def test_marks_are_not_written_through_links(ground: Ground) -> None:
    """``stat >mark`` and ``: >mark.preparing`` once wrote to the file that a link led to."""
    as_account(mark(ground).touch)
    as_account(lambda: os.symlink(ground.roots / "created", f"{mark(ground)}.preparing"))
    prepare = load("common", "tool_options", "copied_options", "prepare")
    words = [ground.data, ground.identity(ground.data), RUN, ACCOUNT, "xtrabackup_checkpoints", "", "", "", "", "true"]
    run(ground, prepare, *words)
    assert ground.state() == ground.before
    mark(ground).unlink()
    as_account(lambda: os.symlink(ground.roots / "secret", mark(ground)))
    run(ground, load("common") + '\nbecome "$3"\nidentify_copy "$1" "$2"', ground.data, RUN, ACCOUNT)
    assert ground.state() == ground.before


def test_files_for_the_check_are_not_read_through_links(ground: Ground) -> None:
    as_account(lambda: os.symlink(ground.roots / "secret", ground.data / "xtrabackup_info"))
    read = run(ground, load("common") + '\nbecome "$3"\nprint_files "$1" "$2"', ground.data, "xtrabackup_info", ACCOUNT)
    assert (read.stdout, SECRET in read.stderr) == ("", False)
    names = [ground.data, "backup-my.cnf", ACCOUNT]
    shown = run(ground, load("common") + '\nbecome "$3"\nprint_files "$1" "$2"', *names).stdout
    assert shown.split()[0] == "backup-my.cnf"


def test_account_of_a_server_is_its_process_s(ground: Ground) -> None:
    """The directory's owner is what the account wants it to be: it can put a directory of root's in its place."""
    program = ground.folder / "mysqld"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    words = ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups", str(program), "60"]
    server = subprocess.Popen(words, cwd=ground.data)
    try:
        shutil.chown(ground.data, "root", "root")
        script = load("common") + '\naccount_of_server "$1"'
        wait_for("the server runs", lambda: run(ground, script, ground.data).stdout.strip() == ACCOUNT, 20)
        assert run(ground, script, ground.neighbour).returncode != 0
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("aside", [True, False])
def test_unreadable_lost_and_found_of_a_mount_point_stays(ground: Ground, aside: bool) -> None:
    """As ``mkfs`` makes it, for root alone: the owner cannot look into it."""
    lost = ground.data / "lost+found"
    lost.mkdir(mode=0o700)
    path = is_mount_point(ground)
    ended = swap(ground, f"{ground.data}/.dbops-old-{RUN}" if aside else "", path=path)
    assert ended.returncode == 0, ended
    ground.fill(ground.data / "new")
    assert set_ownership(ground).returncode == 0
    sync = run(ground, load("common", "sync_copy"), ground.data, ACCOUNT)
    assert (sync.returncode, lost.is_dir()) == (0, True), sync


def test_client_of_a_quiet_start_is_the_owner_s_and_obeys_no_command(ground: Ground) -> None:
    """The account can listen in its server's place, and its answer is what the client reads."""
    said = ground.data / "said"
    client = ground.folder / "client"
    client.write_text(f"#!/bin/bash\n(id -un; echo $*) | paste -s >>{said}\n")
    client.chmod(0o755)
    script = (
        load("common", "inside", "server_log", "quiet_copy")
        + '\ndatadir=$1 owner=$2 quiet_server=(sleep)\nbecome "$2"\n'
    )
    script += 'private_server() { exec sleep 1; }\nquiet_copy mysql "$3" "" REPLICA'
    run(ground, script, ground.data, ACCOUNT, client)
    lines = said.read_text().splitlines()
    assert lines
    assert [line for line in lines if not line.startswith(ACCOUNT) or "--binary-mode" not in line] == []
