"""The names of details in another language: each key that an operation writes has one."""

import ast
from pathlib import Path

from django.utils import translation

from dbops.web.templatetags.audit_details import detail_name

ROOT = Path(__file__).parents[3]
#: Names of products and formats.
THE_SAME = {"ca", "head"}


def keys() -> set[str]:
    """Return the keys of each literal that is given as ``detail``."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "dbops" / "operations").glob("*.py")]
    given = [
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "detail"
    ]
    names = [key for one in given if isinstance(one, ast.Dict) for key in one.keys]
    return {str(key.value) for key in names if isinstance(key, ast.Constant)}


def test_each_detail_has_a_name_in_japanese() -> None:
    found = keys()
    assert {"sessions_ended", "tokens_revoked"} <= found
    with translation.override("ja"):
        assert {key for key in found - THE_SAME if detail_name(key) == key.replace("_", " ")} == set()
        # The changes of the sample name columns by their words.
        assert detail_name("late after seconds") == detail_name("late_after_seconds")
