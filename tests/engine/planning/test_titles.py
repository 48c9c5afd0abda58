"""A check has one title for its good and its bad result: it names a subject and claims nothing."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from dbops.engine.planning import checks

CLAIMS = re.compile(
    r"\b(?:is|are|has|have|can|may|does|do|not|no|runs|answers|exists|keeps|knows|replicates|uses|accepts|enough)\b",
    re.I,
)
RESULTS = ("ok", "warning", "refusal", "unknown")


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the text of each phrase in an expression."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "phrase" and isinstance(call.args[0], ast.Constant):
            yield str(call.args[0].value)


def _titles(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            [target], value = node.targets, node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=True))
            else:
                pairs = [(target, value)]
            for name, given in pairs:
                if isinstance(name, ast.Name) and name.id.lower().endswith("title"):
                    yield from _texts(given)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in RESULTS:
            yield from _texts(node.args[1])


def test_titles_of_checks_claim_nothing() -> None:
    files = Path(checks.__file__).parent.glob("*.py")
    titles = {title for file in files for title in _titles(ast.parse(file.read_text(encoding="utf-8")))}
    assert len(titles) >= 85
    assert {title for title in titles if CLAIMS.search(title)} == set()
