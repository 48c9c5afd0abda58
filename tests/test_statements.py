"""Which tests another database needs is decided by what they send; a test that may send something new is never left out."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError
from hypothesis import given
from hypothesis import strategies as st

from tests import statements
from tests.statements import Recorder, Sent, keep, left_out, needed, shape

RECORDS = st.dictionaries(
    st.sampled_from([f"tests/app/{folder}/test_x.py::test_{n}" for folder in ("web", "audit") for n in range(12)]),
    st.tuples(st.floats(0, 5), st.frozensets(st.sampled_from("abcdefgh"))),
)


@given(RECORDS)
def test_needed_tests_send_all_that_all_send(tests: dict[str, Sent]) -> None:
    chosen = needed(tests)
    assert {one for test in chosen for one in tests[test][1]} == {one for _, sent in tests.values() for one in sent}
    assert {test for test in tests if test.startswith("tests/app/audit/")} <= chosen


def test_needed_prefers_the_cheap_test_of_two() -> None:
    sent = frozenset("ab")
    assert needed({"tests/app/web/slow": (3.0, sent), "tests/app/web/quick": (0.1, sent)}) == {"tests/app/web/quick"}


def test_shape_ignores_numbers_of_values_only() -> None:
    assert shape("SELECT a FROM t WHERE id IN (%s, %s) LIMIT 21") == shape("SELECT a FROM t WHERE id IN (%s) LIMIT 1")
    assert shape("SELECT a FROM t") != shape("SELECT b FROM t")
    assert shape("INSERT INTO t VALUES (%s), (%s)") == shape("INSERT INTO t VALUES (%s)")


def test_statement_that_fails_is_another_statement(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "record")

    def refuse(*_: Any) -> None:
        raise IntegrityError

    recorder._note(lambda *_: None, "INSERT", (), False, None)
    with pytest.raises(IntegrityError):
        recorder._note(refuse, "INSERT", (), False, None)
    recorder._note(lambda *_: None, "INSERT", (), True, None)
    assert len(recorder._sent) == 3


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run; what it keeps is in a folder of this test, and the code is "now"."""
    monkeypatch.setattr(statements, "RECORD", tmp_path / "var" / "record.json")
    monkeypatch.setattr(statements, "_code", lambda: "now")
    monkeypatch.setattr(statements.run_folder, "shared", lambda: tmp_path)
    return tmp_path


def note(folder: Path, *lines: list[Any]) -> None:
    (folder / "statements-1").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    keep()


def test_left_out_is_what_others_send_in_the_same_code(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert left_out() == []
    note(record, ["tests/app/web/a", 1.0, ["x"]], ["tests/app/web/b", 2.0, ["x"]])
    assert left_out() == ["tests/app/web/b"]
    monkeypatch.setattr(statements, "_code", lambda: "later")
    assert left_out() == []


def test_keep_adds_to_the_record_of_the_same_code(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note(record, ["tests/app/web/a", 1.0, ["x"]], ["tests/app/web/b", 2.0, ["x"]])
    note(record, ["tests/app/web/c", 0.1, ["x"]])
    assert left_out() == ["tests/app/web/a", "tests/app/web/b"]
    monkeypatch.setattr(statements, "_code", lambda: "later")
    note(record, ["tests/app/web/c", 0.1, ["x"]])
    assert left_out() == []
