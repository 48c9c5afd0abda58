"""The migrations and checks of dbops on every database."""

from collections.abc import Callable

import pytest

from tests import tables
from tests.databases.conftest import manage
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
