"""Everything that `tests/app` holds of SQLite holds of PostgreSQL and MariaDB, from the first migration on."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import tables
from tests.databases.conftest import manage
from tests.databases.racers import ROOT
from tests.servers import Server, wanted_kinds

pytestmark = pytest.mark.services


def test_migrations_and_checks_pass(server: Server) -> None:
    url = server.create("dbops_migrated")
    for words in (
        ("migrate", "--no-input"),
        ("makemigrations", "--check", "--dry-run"),
        ("check", "--database", "default", "--fail-level", "WARNING"),
    ):
        done = manage(url, server.folder, *words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert tables.rows(url, "SELECT COUNT(*) AS n FROM dbops_rebuild") == [{"n": 0}]


@pytest.mark.parametrize("kind", [kind for kind in wanted_kinds() if kind != "sqlite"])
def test_app_tests_pass_on_every_database(kind: str, servers: Callable[[str], Server], tmp_path: Path) -> None:
    """SQLite has it already: `tests/app` itself. Minutes each."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/app", "-q", "-x", "--create-db", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, "DBOPS_DATABASE_URL": servers(kind).create("dbops_app"), "DBOPS_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.skipif("mariadb" not in wanted_kinds(), reason="MariaDB is not requested")
@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "latin1_bin"])
def test_migrate_refuses_a_case_insensitive_collation(servers: Callable[[str], Server], collation: str) -> None:
    server = servers("mariadb")
    url = server.create(f"dbops_{collation}")
    tables.write(url, f"ALTER DATABASE COLLATE {collation}")
    done = manage(url, server.folder, "migrate", "--no-input")
    assert done.returncode != 0
    assert "dbops.E001" in done.stderr
    assert f"ALTER DATABASE dbops_{collation} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" in done.stderr
    assert tables.rows(url, "SHOW TABLES") == []
