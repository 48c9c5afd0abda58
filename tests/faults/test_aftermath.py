"""The looks after a fault see what they are there for: each is shown a host or a table on which it does not hold."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.e2e.host_state import one
from tests.faults import aftermath
from tests.faults.conftest import Stage
from tests.faults.kinds.control import NoFault
from tests.faults.scene import PRIMARY, SOURCE, TARGET, Scene, get_ready, play

pytestmark = [pytest.mark.services, pytest.mark.faults]
#: no row of the write load has this id
STRANGER = 99_999_999


@pytest.fixture(scope="module")
def scene(stage: Stage) -> Scene:
    """A rebuild that has succeeded."""
    played = Scene(stage.stack, NoFault(), NoFault.telling)
    get_ready(played)
    play(played)
    assert aftermath.look(played) == []
    return played


@contextmanager
def statements(scene: Scene, name: str, do: str, undo: str) -> Iterator[None]:
    one(scene.stack, name, do)
    try:
        yield
    finally:
        one(scene.stack, name, undo)


@contextmanager
def process_of_the_run(scene: Scene) -> Iterator[None]:
    with subprocess.Popen(["sleep", "120"], cwd=scene.target.work_dir / "rebuilds" / scene.uid) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def key_of_the_run(scene: Scene) -> Iterator[None]:
    file = scene.source.folder / "authorized_keys"
    as_it_was = file.read_text()
    file.write_text(f"{as_it_was}restrict ssh-ed25519 AAAA dbops-{scene.uid}\n")
    try:
        yield
    finally:
        file.write_text(as_it_was)


@contextmanager
def credentials(scene: Scene) -> Iterator[None]:
    file = scene.source.work_dir / "rebuilds" / scene.uid / "backup.cnf"
    file.touch()
    try:
        yield
    finally:
        file.unlink()


@contextmanager
def hold(scene: Scene) -> Iterator[None]:
    scene.stack.write(
        "INSERT INTO dbops_hold (instance_id, rebuild_id, purpose, taken_at) VALUES (1, ?, 'source', '2026-01-01')",
        scene.rebuild_id,
    )
    try:
        yield
    finally:
        scene.stack.write("DELETE FROM dbops_hold")


@contextmanager
def column(scene: Scene, name: str, value: str) -> Iterator[None]:
    as_it_was = scene.rebuild()[name]
    scene.stack.write(f"UPDATE dbops_rebuild SET {name} = ? WHERE id = ?", value, scene.rebuild_id)
    try:
        yield
    finally:
        scene.stack.write(f"UPDATE dbops_rebuild SET {name} = ? WHERE id = ?", as_it_was, scene.rebuild_id)


@contextmanager
def directory_beside(scene: Scene, name: str) -> Iterator[None]:
    folder = scene.stack.lab.host(name).folder / f"data.dbops-old-{scene.uid}"
    folder.mkdir()
    try:
        yield
    finally:
        folder.rmdir()


@contextmanager
def one_row_more(scene: Scene) -> Iterator[None]:
    with scene.stack.lab.connect(TARGET) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"INSERT INTO sbtest.sbtest1 VALUES ({STRANGER}, 1, '', '')")
        connection.commit()
        try:
            yield
        finally:
            cursor.execute(f"DELETE FROM sbtest.sbtest1 WHERE id = {STRANGER}")
            connection.commit()


@contextmanager
def counted_less(scene: Scene, name: str) -> Iterator[None]:
    """As if the server had counted one more during the rebuild."""
    scene.counters[name] -= 1
    try:
        yield
    finally:
        scene.counters[name] += 1


Sabotage = Callable[[Scene], AbstractContextManager[None]]
SABOTAGES: dict[str, tuple[str, Sabotage]] = {
    "the source's applier is stopped": (
        "source-stopped",
        lambda scene: statements(scene, SOURCE, "STOP SLAVE SQL_THREAD", "START SLAVE SQL_THREAD"),
    ),
    "a directory is beside the primary's data": ("wrong-machine", lambda scene: directory_beside(scene, PRIMARY)),
    "a directory is beside the source's data": ("wrong-machine", lambda scene: directory_beside(scene, SOURCE)),
    "the outcome is silent of the old data": ("wrong-machine", lambda scene: directory_beside(scene, TARGET)),
    "a process of the run lives": ("orphan", process_of_the_run),
    "the run's key is let in": ("orphan", key_of_the_run),
    "credentials lie about": ("orphan", credentials),
    "an instance is held": ("stuck", hold),
    "a rebuild is unfinished": ("stuck", lambda scene: column(scene, "status", "lost")),
    "a lease is held": ("stuck", lambda scene: column(scene, "lease_owner", "somebody")),
    "a stage of a second backup": ("sent-again", lambda scene: counted_less(scene, "backup_stages")),
    "a second start of the server": ("sent-again", lambda scene: counted_less(scene, "server_starts")),
    "another status": ("unexpected", lambda scene: column(scene, "status", "failed")),
    "a row too many": ("false-success", one_row_more),
    "a replica that takes writes": (
        "false-success",
        lambda scene: statements(scene, TARGET, "SET GLOBAL read_only = 0", "SET GLOBAL read_only = 1"),
    ),
}


@pytest.mark.parametrize("what", SABOTAGES)
def test_aftermath_detects_every_sabotage(scene: Scene, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aftermath, "GIVEN_BACK_SECONDS", 1.0)
    scene.stack.lab.load_stop()
    kind, sabotage = SABOTAGES[what]
    with sabotage(scene):
        assert kind in {violation.kind for violation in aftermath.look(scene)}


def test_aftermath_finds_nothing_without_a_fault(scene: Scene) -> None:
    assert aftermath.look(scene) == []
