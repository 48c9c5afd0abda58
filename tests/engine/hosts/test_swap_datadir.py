"""The last check before data is moved, run for real: in every world that is not the plan's, nothing is touched.

``test_swap_without_one_check_is_detected`` takes the script's checks away one after another and asserts that this suite sees it.
"""

import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.hosts.scripts import load

from .target_host import REFUSED, SCRIPT, Ended, SwapArguments, TargetHost, target_host, this_machine

DATADIR, ELSEWHERE = "/var/lib/mysql", "/srv/mysql-2"


@dataclass(frozen=True)
class World:
    """The target's host when the script runs. Everything is as the plan saw it but for what a test changes.

    ``at_path`` owns the directory at the plan's path; ``inside`` are the servers that run in it; ``behind`` answers on
    the plan's socket. ``meant`` is the instance that the operator chose, ``stranger`` any other.
    """

    plan_saw_running: bool = True
    plan_saw_directory: bool = True
    keeps_old_data: bool = True
    flavor: str = "mariadb"
    at_path: str = "meant"
    inside: tuple[str, ...] = ("meant",)
    behind: str = "meant"
    stranger_has_the_same_server_id: bool = False
    stranger_has_the_same_uuid: bool = False
    stranger_says_the_same_datadir: bool = False
    takes_writes: bool = False
    replicas: int = 0
    is_a_clone_of_the_machine: bool = False
    was_left_by_a_rebuild: bool = False
    work_since: str = ""

    @property
    def is_the_plans(self) -> bool:
        """Tell the truth: may what is at the plan's path be stopped and moved? By names alone, which no script can see."""
        if self.is_a_clone_of_the_machine or self.work_since:
            return False
        if self.at_path != ("meant" if self.plan_saw_directory else "nothing"):
            return False
        if not self.plan_saw_running:
            return not self.inside and self.behind == "none"
        is_alone = self.inside == ("meant",) and self.behind == "meant"
        return is_alone and not self.takes_writes and not self.replicas

    @property
    def is_consistent(self) -> bool:
        """A server that answers does not leave its directory to another; none runs in a missing one."""
        if self.at_path == "nothing":
            return not self.inside
        return self.at_path != "meant" or self.behind != "meant" or self.inside != ("stranger",)

    @property
    def is_distinguishable(self) -> bool:
        """A stranger on the socket that says the same of itself in everything cannot be seen through."""
        same_uuid = self.flavor == "mariadb" or self.stranger_has_the_same_uuid
        same = self.stranger_has_the_same_server_id and same_uuid and self.stranger_says_the_same_datadir
        return not (self.behind == "stranger" and same)


def build(host: TargetHost, world: World) -> SwapArguments:
    """Make the host as the plan saw it, take the plan, then make it what it is in this world."""
    host.add_directory("meant", DATADIR)
    (host.place(DATADIR) / "app").mkdir()
    host.add_directory("stranger", ELSEWHERE)
    identity = host.identity(DATADIR) if world.plan_saw_directory else ""
    tree = host.tree(DATADIR) if world.was_left_by_a_rebuild else ""
    if world.work_since:
        WORK[world.work_since](host.place(DATADIR))
    _put_at_path(host, world.at_path)
    for number, name in enumerate(world.inside):
        if (
            directory := next((key for key, path in host.directories.items() if path == host.place(DATADIR)), "")
        ) != "":
            host.add_process(f"{name}-{number}", directory, "mysqld" if name == "stranger" else "mariadbd")
    is_meant = world.behind == "meant"
    if world.behind != "none":
        said = {
            "server_id": 13 if is_meant or world.stranger_has_the_same_server_id else 14,
            "read_only": 0 if world.takes_writes else 1,
            "datadir": f"{host.place(DATADIR if is_meant or world.stranger_says_the_same_datadir else ELSEWHERE)}/",
            "replicas": world.replicas,
        }
        if world.flavor == "mysql":
            said["server_uuid"] = "uuid-13" if is_meant or world.stranger_has_the_same_uuid else "uuid-14"
        host.answer(**said)
    return SwapArguments(
        datadir=DATADIR,
        identity=identity,
        is_answering=world.plan_saw_running,
        server_id="13" if world.plan_saw_running else "",
        server_uuid="uuid-13" if world.plan_saw_running and world.flavor == "mysql" else "",
        keeps_old_data=world.keeps_old_data,
        machine="its-original 0123456789abcdef" if world.is_a_clone_of_the_machine else this_machine(),
        tree=tree,
        inside="d binlogs\nf ca.pem\n",
    )


def _write_again(datadir: Path) -> None:
    """Other bytes would not be noticed here: size, time of writing and inode are as they were, as ``rsync --inplace -t`` leaves them."""
    before = (datadir / "ibdata1").stat()
    with (datadir / "ibdata1").open("r+") as file:
        file.write("meant")
    os.utime(datadir / "ibdata1", ns=(before.st_atime_ns, before.st_mtime_ns))


def _restore(datadir: Path) -> None:
    """As ``rm -rf *`` and a restored copy: the mark, which has a dot before its name, stays."""
    shutil.copy2(datadir / "ibdata1", datadir.parent / "restored")
    (datadir / "ibdata1").unlink()
    (datadir.parent / "restored").rename(datadir / "ibdata1")


#: What a person does in a data directory that a failed rebuild left; the directory stays the same.
WORK: dict[str, Callable[[Path], object]] = {
    "a file is written in its place": _write_again,
    "a copy is restored": _restore,
    "a file is added": lambda datadir: (datadir / ".notes").write_text("do not touch"),
    "files get an owner": lambda datadir: os.chown(datadir / "ibdata1", os.getuid(), os.getgid()),
    "a file is made writable": lambda datadir: (datadir / "ibdata1").chmod(0o666),
    "a schema's file is added": lambda datadir: (datadir / "app" / "t1.ibd").write_text(""),
}


def _put_at_path(host: TargetHost, name: str) -> None:
    """Move the directories so that the named one, or nothing, is at the plan's path."""
    if name == "meant":
        return
    away = host.place("/srv/moved-away")
    host.directories["meant"] = host.place(DATADIR).rename(away)
    if name == "stranger":
        host.directories["stranger"] = host.place(ELSEWHERE).rename(host.place(DATADIR))


def end_of(world: World, script: str = SCRIPT) -> Ended:
    with target_host() as host:
        return host.swap_datadir(build(host, world), script)


def is_right(world: World, ended: Ended) -> bool:
    """The oracle: in the plan's world the old data is moved, in every other one the script refuses and leaves all alone."""
    if not world.is_the_plans:
        return ended.exit_status == REFUSED and ended.left_all_alone
    wanted = {"meant"} if world.plan_saw_directory else set()
    return (ended.exit_status, ended.touched, ended.asked_to_stop) == (0, wanted, True)


RIGHT = World()
STOPPED = World(plan_saw_running=False, inside=(), behind="none")
MISSING = replace(STOPPED, plan_saw_directory=False, at_path="nothing")
LEFT = replace(STOPPED, was_left_by_a_rebuild=True)
STRANGE = World(behind="stranger")
WORLDS = {
    "as planned": RIGHT,
    "as planned, old data is removed": replace(RIGHT, keeps_old_data=False),
    "as planned, MySQL": replace(RIGHT, flavor="mysql"),
    "as planned, stopped": STOPPED,
    "as planned, stopped, old data is removed": replace(STOPPED, keeps_old_data=False),
    "as planned, no directory": MISSING,
    "a clone of the machine": replace(RIGHT, is_a_clone_of_the_machine=True),
    "a clone of the machine, its server dead": replace(STOPPED, is_a_clone_of_the_machine=True),
    "as a failed rebuild left it": LEFT,
    "as a failed rebuild left it, an incomplete copy is removed": replace(LEFT, keeps_old_data=False),
    **{f"left by a failed rebuild, then {work}": replace(LEFT, work_since=work, keeps_old_data=False) for work in WORK},
    "another directory has its name": replace(STOPPED, at_path="stranger"),
    "another directory and its server": replace(RIGHT, at_path="stranger"),
    "the directory is gone": replace(STOPPED, at_path="nothing"),
    "a directory appeared": replace(MISSING, at_path="meant"),
    "the server was stopped since": replace(RIGHT, inside=(), behind="none"),
    "the server was started since": replace(STOPPED, inside=("meant",), behind="meant"),
    "the server was started since in another directory": replace(STOPPED, behind="meant"),
    "the server was started since, and refuses logins": replace(STOPPED, inside=("meant",)),
    "a second server": replace(RIGHT, inside=("meant", "stranger")),
    "no server there, another one on the socket": replace(RIGHT, inside=(), behind="meant"),
    "no server on the socket": replace(RIGHT, behind="none"),
    "another server on the socket": replace(STRANGE, stranger_says_the_same_datadir=True),
    "another server with the same id": replace(STRANGE, stranger_has_the_same_server_id=True),
    "another server with the same id, its old data is removed": replace(
        STRANGE, stranger_has_the_same_server_id=True, keeps_old_data=False
    ),
    "another server of which the uuid alone tells": replace(
        STRANGE, flavor="mysql", stranger_has_the_same_server_id=True, stranger_says_the_same_datadir=True
    ),
    "it takes writes": replace(RIGHT, takes_writes=True),
    "it takes writes, old data is removed": replace(RIGHT, takes_writes=True, keeps_old_data=False),
    "a replica is attached": replace(RIGHT, replicas=1),
    "replicas are attached": replace(RIGHT, replicas=12, flavor="mysql"),
}


@pytest.mark.parametrize("name", WORLDS)
def test_swap_touches_only_the_planned_target(name: str) -> None:
    ended = end_of(WORLDS[name])
    assert is_right(WORLDS[name], ended), ended


@given(
    st.builds(
        World,
        flavor=st.sampled_from(["mariadb", "mysql"]),
        at_path=st.sampled_from(["meant", "meant", "meant", "stranger", "nothing"]),
        inside=st.sampled_from([("meant",), ("meant",), (), ("stranger",), ("meant", "stranger")]),
        behind=st.sampled_from(["meant", "meant", "stranger", "none"]),
        replicas=st.sampled_from([0, 0, 0, 1, 100]),
    ).filter(lambda world: world.is_distinguishable and world.is_consistent)
)
def test_swap_touches_only_the_planned_target_after_any_event(world: World) -> None:
    ended = end_of(world)
    assert is_right(world, ended), ended


@pytest.mark.parametrize("world", [RIGHT, MISSING])
def test_swap_keeps_what_the_option_file_names(world: World) -> None:
    with target_host() as host:
        told = build(host, world)
        if world.plan_saw_directory:
            (host.place(DATADIR) / "ca.pem").write_text("certificate")
        ended = host.swap_datadir(told)
        assert ended.exit_status == 0, ended
        with tarfile.open(host.place(DATADIR) / ".dbops-run.inside") as kept:
            names = {name.removeprefix("./") for name in kept.getnames()}
    assert names == ({"binlogs", "ca.pem"} if world.plan_saw_directory else {"binlogs"})


@pytest.mark.parametrize("what", ["a file", "a link to nowhere"])
def test_swap_stops_nothing_when_the_directory_cannot_be_made(what: str) -> None:
    with target_host() as host:
        told = build(host, MISSING)
        place = host.place(DATADIR)
        if what == "a file":
            place.write_text("")
            told = replace(told, identity=host.identity(DATADIR))
        else:
            place.symlink_to("nowhere")
        ended = host.swap_datadir(told)
    assert (ended.exit_status, ended.left_all_alone) == (REFUSED, True), ended


def stop_that(how: str, script: str = SCRIPT) -> Ended:
    with target_host() as host:
        return host.swap_datadir(replace(build(host, RIGHT), stop=how), script.replace("seq 6000", "seq 5"))


@pytest.mark.parametrize("how", ["fails", "does nothing"])
def test_swap_moves_nothing_when_the_server_does_not_stop(how: str) -> None:
    ended = stop_that(how)
    assert (ended.exit_status, ended.touched, ended.stopped) == (70, frozenset(), frozenset()), ended


@pytest.mark.parametrize("keeps_old_data", [True, False])
def test_swap_loses_nothing_when_data_appears_during_the_stop(keeps_old_data: bool) -> None:
    with target_host() as host:
        told = build(host, replace(LEFT, keeps_old_data=keeps_old_data))
        ended = host.swap_datadir(replace(told, stop="restores"))
        assert (ended.exit_status, ended.touched) == (70, frozenset()), ended
        assert not list(host.place(DATADIR).parent.glob("*.dbops-old-*")), ended
        assert (host.place(DATADIR) / "restored").read_text() == "restored\n"


def test_swap_never_overwrites_the_place_for_old_data() -> None:
    with target_host() as host:
        told = build(host, STOPPED)
        host.add_directory("kept", f"{DATADIR}.dbops-old-run")
        ended = host.swap_datadir(told)
    assert (ended.exit_status, ended.touched) == (70, frozenset()), ended


@pytest.mark.parametrize("keeps_old_data", [True, False])
def test_swap_keeps_data_of_another_rebuild_on_a_mount_point(keeps_old_data: bool) -> None:
    """A person may have asked to keep it, and what is moved aside now is removed after the copy was verified."""
    with target_host() as host:
        told = build(host, replace(STOPPED, keeps_old_data=keeps_old_data))
        datadir = host.place(DATADIR)
        (datadir / ".dbops-old-another").mkdir()
        (datadir / ".dbops-old-another/ibdata1").write_text("kept")
        program = host.root / "mountpoint"
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
        ended = host.swap_datadir(
            told, SCRIPT.replace("mountpoint -q", f"{program} -q").replace("aside=$7", "aside=${7:+$1/.dbops-old-run}")
        )
        assert ended.exit_status == 0, ended
        assert (datadir / ".dbops-old-another/ibdata1").read_text() == "kept"
        assert not (datadir / "ibdata1").exists()
        assert (datadir / ".dbops-old-run/ibdata1").exists() is keeps_old_data


def test_tree_is_stable_until_the_directory_changes() -> None:
    with target_host() as host:
        host.add_directory("meant", DATADIR)
        datadir = host.place(DATADIR)
        (datadir / "a name\nof two lines").write_text("")
        (datadir / ".dbops-old-run").mkdir()
        left = host.tree(DATADIR)
        (datadir / "ibdata1").read_text()
        (datadir / ".dbops-old-run" / "ibdata1").write_text("a person looks after the old data")
        assert left == host.tree(DATADIR)
        assert len(left) == 64
        assert host.tree(ELSEWHERE) == "", "of what cannot be read nothing is said"


def test_tree_ignores_old_data() -> None:
    """On a mount point older data is beside the copy, and only root can read lost+found."""
    with target_host() as host:
        host.add_directory("meant", DATADIR)
        datadir = host.place(DATADIR)
        (datadir / ".dbops-old-another").mkdir()
        (datadir / "lost+found").mkdir()
        left = host.tree(DATADIR)
        (datadir / ".dbops-old-another").rmdir()
        (datadir / "lost+found" / "#12").write_text("found")
        assert left == host.tree(DATADIR) != ""
        (datadir / "shop").mkdir()
        (datadir / "shop" / "lost+found").write_text("this one is data")
        assert left != host.tree(DATADIR)
        left = host.tree(DATADIR)
        datadir.chmod(0o777)
        assert left != host.tree(DATADIR)


# --- the negative control -------------------------------------------------------------------------------------------
#: Checks without which the next one refuses all the same: their loss is a worse sentence, not a wrong machine.
ONLY_FOR_THE_SENTENCE = (
    "The server no longer answers: $answer",
    "The server no longer answers: $live_uuid",
)
ONLY_FOR_THE_SENTENCE += ("The server no longer answers: $replicas",)
#: Tested in ``tests/e2e/test_swap_datadir.py`` and ``tests/hostile/test_data_directory.py``.
ELSEWHERE_TESTED = ("is not a data directory", "that the option file names cannot be read", "does not belong to")


def without_check(number: int) -> str:
    """Return the script with one of its refusals made silent."""
    parts = load("swap_datadir").split('refuse "')
    return (
        load("common", "inside")
        + "\n"
        + 'refuse "'.join(parts[: number + 1])
        + ': "'
        + 'refuse "'.join(parts[number + 1 :])
    )


def sees(script: str) -> str:
    """Return the first world in which this suite sees that the script is wrong, "" where it sees nothing."""
    return next((name for name, world in WORLDS.items() if not is_right(world, end_of(world, script))), "")


CHECKS = [part.split('"')[0] for part in load("swap_datadir").split('refuse "')[1:]]


@pytest.mark.parametrize("number", range(len(CHECKS)), ids=lambda number: f"without: {CHECKS[number]}")
def test_swap_without_one_check_is_detected(number: int) -> None:
    text = CHECKS[number]
    if any(part in text for part in ELSEWHERE_TESTED):
        pytest.skip("tested on a real directory of the system")
    seen = sees(without_check(number))
    assert bool(seen) != (text in ONLY_FOR_THE_SENTENCE), f"{text!r}: {seen or 'no world detects that it is gone'}"


MUTATIONS: dict[str, tuple[str, str]] = {
    "a server is looked for by another name": ("mariadbd | mysqld)", "mariadbd)"),
    "directories are compared by nothing": ('[ "$(identity_of "$datadir")" = "$expected_identity" ]', "true"),
    "no server process is ever found": ('echo "${process%%/*}"', ":"),
    "any number of servers will do": ('[ "$(echo "$pids" | wc -w)" = 1 ]', '[ -n "$pids" ]'),
    "it is enough to be on the socket": ('[ "$(echo "$pids" | wc -w)" = 1 ]', "true"),
    "read_only may be off": ('[ "$live_read_only" = 1 ]', '[ -n "$live_read_only" ]'),
    "one replica may be attached": ('[ "$replicas" = 0 ]', '[ "$replicas" -le 1 ]'),
    "refusing continues": ("exit 65", ":"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_swap_with_a_weakened_check_is_detected(name: str) -> None:
    old, new = MUTATIONS[name]
    assert SCRIPT.count(old) == 1, "the script was changed: change this mutation too"
    assert sees(SCRIPT.replace(old, new))


@pytest.mark.parametrize(("how", "text"), [("fails", "The stop command ended"), ("does nothing", "still runs on")])
def test_swap_without_the_stop_check_is_detected(how: str, text: str) -> None:
    """The negative control of ``test_swap_moves_nothing_when_the_server_does_not_stop``: without both checks the data is moved."""
    script = SCRIPT.replace('fail "The stop command ended', ': "').replace('fail "Process $pids still', ': "')
    assert text in SCRIPT
    assert stop_that(how, script).touched == {"meant"}
