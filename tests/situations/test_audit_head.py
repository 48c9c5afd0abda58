"""An audit log whose entries, search texts and head disagree, as an administrator of the database can leave it."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.loaded import MANAGE, Loaded
from tests.said import numbers
from tests.stack import DATABASE, template

#: What is removed behind entry ``?``, and which hash the head then has.
CUT_ENTRIES = "DELETE FROM dbops_auditentry WHERE sequence > ?"
CUT_TEXTS = "DELETE FROM dbops_audittext WHERE sequence > ?"
SET_HEAD_BACK = (
    "UPDATE dbops_audithead SET (sequence, hash) = (SELECT sequence, hash FROM dbops_auditentry WHERE sequence = ?)"
)


class Dashboard:
    """A dashboard's database and its commands, without running processes."""

    def __init__(self, state: Path, code: Loaded) -> None:
        self.state, self.code = state, code

    def verify(self) -> tuple[int, list[str]]:
        """Return the exit status of ``audit verify``, and the lines of its findings."""
        done = self.code.run(MANAGE, "audit", "verify")
        *found, _, _ = done.stdout.splitlines()
        return done.returncode, found

    def create_account(self, name: str) -> int:
        words = ("account", "create", name, "--group", "viewer", "--password-stdin")
        return self.code.run(MANAGE, *words, stdin="correct horse battery staple").returncode

    def tamper(self, *statements: str, keep: int) -> int:
        """Change the log without its triggers, which are there again afterwards; return the last entry's number before."""
        with closing(sqlite3.connect(self.state / DATABASE, isolation_level=None)) as database:
            last: int = database.execute("SELECT MAX(sequence) FROM dbops_auditentry").fetchone()[0]
            triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                database.execute(f'DROP TRIGGER "{name}"')
            for statement in statements:
                database.execute(statement, (last - keep,))
            for _, sql in triggers:
                database.execute(sql)
        return last


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    folder = tmp_path_factory.mktemp("dashboard")
    state = folder / "state"
    shutil.copytree(template(), state)
    own = {"DBOPS_STATE_DIR": str(state), "DBOPS_DATABASE_URL": f"sqlite:///{state / DATABASE}"}
    with closing(Loaded({**os.environ, **own}, folder / "loaded.log")) as code:
        dashboard = Dashboard(state, code)
        for number in range(3):
            assert dashboard.create_account(f"person-{number}") == 0
        assert dashboard.verify() == (0, [])
        yield dashboard


@pytest.fixture
def dashboard(made: Dashboard, tmp_path: Path) -> Iterator[Dashboard]:
    """Put the database back as it was before each test."""
    database, kept = made.state / DATABASE, tmp_path / "kept"
    with closing(sqlite3.connect(database)) as now, closing(sqlite3.connect(kept)) as copy:
        now.backup(copy)
    yield made
    with closing(sqlite3.connect(kept)) as copy, closing(sqlite3.connect(database)) as now:
        copy.backup(now)


@pytest.mark.situation("F7", "verification prints what it finds; the log can be written, and the finding stays")
@pytest.mark.parametrize(
    "statements",
    [(SET_HEAD_BACK, CUT_ENTRIES), (CUT_ENTRIES, CUT_TEXTS), (SET_HEAD_BACK,), (SET_HEAD_BACK, CUT_TEXTS)],
    ids=["texts are left", "head is left", "all is left", "entries are left"],
)
def test_log_that_disagrees_with_itself_is_reported_and_written(
    dashboard: Dashboard, statements: tuple[str, ...]
) -> None:
    last = dashboard.tamper(*statements, keep=2)
    status, found = dashboard.verify()
    assert status == 1
    assert any(number in numbers(line) for line in found for number in (last - 1, last))
    assert dashboard.create_account("another") == 0
    status, found = dashboard.verify()
    assert (status, bool(found)) == (1, True)
