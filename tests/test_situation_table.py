"""The table of situations says what the tests' markers say, and every test of a situation has a marker."""

import ast
from pathlib import Path

import pytest

from tests.situation_table import DOCUMENT, FOLDER, Mark, document, marks


def test_situation_table_equals_the_markers() -> None:
    assert DOCUMENT.read_text() == document(), "run script/matrix"


def test_row_lists_each_expectation_and_file_once() -> None:
    found = [Mark("4", "refused", "test_a.py"), Mark("4", "refused", "test_a.py"), Mark("4", "equal", "test_b.py")]
    [row] = [line for line in document(found).splitlines() if "DATA DIRECTORY" in line]
    assert "| refused; equal |" in row
    assert row.endswith("| `test_a.py`, `test_b.py` |")


def test_unknown_situation_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        'import pytest\n\n@pytest.mark.situation("no such", "refused")\ndef test(): ...\n'
    )
    with pytest.raises(ValueError, match=r"test_it\.py:3"):
        marks(tmp_path)


def test_every_test_of_a_situation_is_marked() -> None:
    unmarked = []
    for path in sorted(FOLDER.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any("situation" in ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign)):
            continue  # a mark for the whole file
        unmarked += [
            f"{path.name}::{node.name}"
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
            and node.name.startswith("test_")
            and "situation" not in "".join(map(ast.unparse, node.decorator_list))
        ]
    assert unmarked == []
