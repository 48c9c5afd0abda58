"""The table of versions says what the tests' markers say, and nothing else."""

from pathlib import Path

import pytest

from dbops.engine.flavors.tidb import is_tidb
from tests import matrix, ran
from tests.matrix import BY_HAND, DOCUMENT, RECORDED, RUN, SERVERS, UNTRIED, WAYS, Mark, cell, document, marks, refusal

SERVER = {server.name: server for server in SERVERS}


def test_version_table_equals_the_markers() -> None:
    assert DOCUMENT.read_text() == document(), "run script/matrix"


def test_servers_that_were_run_by_hand_have_a_date() -> None:
    assert {mark.server for mark in marks() if mark.kind == "by_hand"} == matrix.RAN_BY_HAND.keys()


def test_plan_refuses_nothing_that_a_test_does() -> None:
    assert [mark for mark in marks() if refusal(SERVER[mark.server], mark.way)] == []


def test_recorded_is_not_run_and_unsaid_is_not_tried() -> None:
    found = [Mark("recorded", "MySQL 8.0", "xbstream", "a"), Mark("runs", "MariaDB 10.11", "xbstream", "b")]
    assert cell(SERVER["MySQL 8.0"], "xbstream", found) == RECORDED
    assert cell(SERVER["MariaDB 10.11"], "xbstream", found) == RUN
    assert cell(SERVER["MariaDB 10.6"], "xbstream", found) == UNTRIED
    both = [*found, Mark("runs", "MySQL 8.0", "xbstream", "c")]
    assert cell(SERVER["MySQL 8.0"], "xbstream", both) == RUN
    both[2] = Mark("by_hand", "MySQL 8.0", "xbstream", "c")
    assert cell(SERVER["MySQL 8.0"], "xbstream", both) == BY_HAND


@pytest.mark.parametrize(
    ("server", "way", "words"),
    [
        ("MariaDB 11.8", "clone", "no: only MySQL has it (`clone.version`)"),
        ("MySQL 5.7", "clone", "cloning begins with MySQL 8.0"),
        ("MySQL 9.7", "xbstream", "no: no XtraBackup of this series is released (`tools.source`)"),
        ("MySQL 9.7", "archive", "no: no XtraBackup"),
    ],
)
def test_refused_cell_has_its_reason(server: str, way: str, words: str) -> None:
    assert words in cell(SERVER[server], way, [])


def test_tidb_is_read_and_loaded_and_nothing_else() -> None:
    server = SERVER["TiDB 8.4"]
    assert [way for way in WAYS if not refusal(server, way)] == ["load test", "statements"]


@pytest.mark.parametrize("server", [one for one in SERVERS if not is_tidb(one.version)], ids=lambda server: server.name)
def test_dumps_and_relaxed_settings_apply_to_every_server(server: matrix.Server) -> None:
    assert refusal(server, "dump") == ""
    assert refusal(server, "catch-up") == ""
    if server.tool:
        assert [way for way in WAYS if way != "clone" and refusal(server, way)] == []


def test_marker_with_another_word_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        'import pytest\n\n@pytest.mark.runs("MariaDB 11.9", "xbstream")\ndef test(): ...\n'
    )
    with pytest.raises(ValueError, match=r"test_it\.py:3"):
        marks(tmp_path)
    (tmp_path / "test_it.py").write_text(
        'import pytest\nX = pytest.param(1, marks=pytest.mark.runs("MySQL 9.7", "clone"))\n'
    )
    [mark] = marks(tmp_path)
    assert (mark.kind, mark.server, mark.way) == ("runs", "MySQL 9.7", "clone")


def test_unseen_lists_claims_that_no_run_confirmed() -> None:
    claims = {
        ("MariaDB 10.11", "xbstream"),
        ("MariaDB 10.11", "restore test"),
        ("MySQL 9.7", "clone"),
        ("MySQL 9.7", "catch-up"),
    }
    ended = {
        ("MariaDB 10.11", "rebuild by xbstream", "succeeded"),
        ("MariaDB 10.11", "restore test of physical", "succeeded"),
        ("MySQL 9.7", "rebuild by clone", "failed"),
    }
    found = ran.unseen(claims, ended)
    assert [line.rpartition(": ")[2] for line in found] == ["MySQL 9.7, catch-up", "MySQL 9.7, clone"]
    ended.add(("MySQL 9.7", "rebuild by clone", "succeeded"))
    assert ran.unseen(claims, ended) == []
