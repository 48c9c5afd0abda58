"""The audit log on every database: many writers make one chain, and the database refuses what would change it."""

import pytest

from tests import tables
from tests.databases.conftest import manage
from tests.databases.racers import Racer, race
from tests.said import names, numbers
from tests.servers import Server

pytestmark = pytest.mark.services
EACH = 40


def test_concurrent_writers_make_one_chain(racers: list[Racer]) -> None:
    racers[0].do("empty")
    race(racers, "write_entries", each=[(EACH, f"writer {number}") for number in range(len(racers))])
    assert racers[0].do("verify_log") == [EACH * len(racers), []]


def test_database_refuses_to_change_the_log(racers: list[Racer], url: str, server: Server) -> None:
    racers[0].do("empty")
    racers[0].do("write_entries", 3, "olga")
    statements = [
        "UPDATE dbops_auditentry SET actor = 'mallory'",
        "DELETE FROM dbops_auditentry WHERE sequence = 3",
        "UPDATE dbops_audittext SET text = ''",
        "DELETE FROM dbops_auditname",
        "UPDATE dbops_audithead SET sequence = 1",
        "DELETE FROM dbops_audithead",
    ]
    if server.kind == "postgresql":
        statements += ["TRUNCATE dbops_auditentry", "TRUNCATE dbops_audithead"]
        statements.append(
            "INSERT INTO dbops_audithead SELECT * FROM dbops_audithead ON CONFLICT (id) DO UPDATE SET sequence = 0"
        )
    else:
        statements += ["REPLACE INTO dbops_auditentry SELECT * FROM dbops_auditentry WHERE sequence = 2"]
        statements += ["REPLACE INTO dbops_audithead (id, sequence, hash) VALUES (1, 0, '')"]
    for statement in statements:
        with pytest.raises(Exception, match=r"\baudit\b"):
            tables.write(url, statement)
    assert racers[0].do("verify_log") == [3, []]


def test_database_deletes_archived_entries_only(server: Server) -> None:
    url = server.create("dbops_segments")
    assert manage(url, server.folder, "migrate", "--no-input").returncode == 0
    for _ in range(4):
        assert manage(url, server.folder, "audit", "verify").returncode == 0
    [second] = tables.rows(url, "SELECT hash FROM dbops_auditentry WHERE sequence = 2")
    tables.write(
        url,
        "INSERT INTO dbops_auditsegment (first, last, previous, hash, file_name, file_hash, at) VALUES (1, 2, ?, ?, ?, ?, ?)",
        *("0" * 64, second["hash"], "none", "0" * 64, "2026-03-01 04:05:06"),
    )
    for table in ("dbops_auditentry", "dbops_audittext"):
        tables.write(url, f"DELETE FROM {table} WHERE sequence <= 2")
        assert tables.rows(url, f"SELECT count(*) AS n FROM {table}") == [{"n": 2}]
    refused = [f"DELETE FROM {table}" for table in ("dbops_auditentry", "dbops_audittext", "dbops_auditsegment")]
    refused.append("UPDATE dbops_auditsegment SET last = 4")
    refused.append(
        "TRUNCATE dbops_auditsegment"
        if server.kind == "postgresql"
        else "REPLACE INTO dbops_auditsegment SELECT * FROM dbops_auditsegment"
    )
    for statement in refused:
        with pytest.raises(Exception, match=r"\baudit\b"):
            tables.write(url, statement)
    done = manage(url, server.folder, "audit", "verify")
    assert done.returncode == 1
    [found] = [line for line in done.stdout.splitlines() if line.startswith("removed: ")]
    assert numbers(found) == [1, 2]


def test_missing_guard_is_named(server: Server) -> None:
    url = server.create("dbops_guards")
    assert manage(url, server.folder, "migrate", "--no-input").returncode == 0
    assert manage(url, server.folder, "audit", "verify").returncode == 0
    on = " ON dbops_audithead" if server.kind == "postgresql" else ""
    tables.write(url, f"DROP TRIGGER dbops_audithead_update{on}")
    done = manage(url, server.folder, "audit", "verify")
    assert done.returncode == 1
    [found] = [line for line in done.stdout.splitlines() if line.startswith("unguarded: ")]
    assert names(found, "UPDATE", "dbops_audithead")
