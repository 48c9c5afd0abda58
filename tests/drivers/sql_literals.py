"""Find every SQL statement in the product's own text, to compare it with what real servers were sent."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("dbops/engine", "dbops/drivers", "dbops/worker")
#: Files with words about SQL alone: advice, and patterns of logs.
WORDS = ("dbops/engine/catalogue", "dbops/engine/planning", "dbops/engine/backups", "dbops/engine/flavors/dumps.py")
#: Statements for TiDB alone, which no other server is sent: tests/drivers/test_tidb.py, test_tidb_load.py.
OF_TIDB = (
    "dbops/drivers/probe_tidb.py",
    "dbops/engine/capacity/tidb_advice.py",
    "dbops/engine/load_tests/tidb_cluster.py",
)
_VERBS = (
    "ALTER|ANALYZE|BACKUP|CALL|CHANGE|CHECK|CLONE|CREATE|DELETE|DROP|EXPLAIN|FLUSH|GRANT|INSERT|INSTALL|KILL|LOCK|PURGE|RESET|REVOKE|"
    "ROLLBACK|SAVEPOINT|SELECT|SET|SHOW|SHUTDOWN|START|STOP|UNINSTALL|UNLOCK|UPDATE|WITH"
)
_STATEMENT = re.compile(rf"\(?({_VERBS}) +\S")
#: Parts that a program fills in.
_VARIABLE = re.compile(r"\0|\{\w*\}")


@dataclass(frozen=True, slots=True)
class Literal:
    """A statement, or the beginning of one, at a place of the product. ``\\0`` is what a program fills in."""

    file: str
    line: int
    text: str

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(".*".join(map(re.escape, _VARIABLE.split(_plain(self.text)))), re.DOTALL)

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.text[:100]!r}"


def _plain(text: str) -> str:
    return text.replace("%%", "%")


def literals() -> list[Literal]:
    """Return the statements of the product, without those of ``WORDS``."""
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    files = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return [one for file, path in files.items() if not file.startswith(WORDS) for one in _of(file, path)]


def _of(file: str, path: Path) -> Iterator[Literal]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = list(ast.walk(tree))
    no_text = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, kinds) and node.body and isinstance(node.body[0], ast.Expr)
    }
    no_text |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in no_text or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in parts)
        if _STATEMENT.match(text):
            yield Literal(file, node.lineno, text)


def plain_reads(*folders: str) -> list[str]:
    """Return the statements in these folders that only read and take no values."""
    found = {one.text for one in literals() if one.file.startswith(folders)}
    return sorted(text for text in found if re.match("SELECT|SHOW", text) and not re.search(r"\0|%s|\{", text))


def statement_of(file: str) -> str:
    """Return the only statement of a file."""
    [found] = [one.text for one in literals() if one.file == file]
    return found


def untried(sent: Iterable[str], exempt: Iterable[str]) -> list[Literal]:
    """Return the statements of which no server was sent one. ``exempt``: beginnings of those that are tried elsewhere."""
    texts, exempt = [_plain(text) for text in sent], tuple(exempt)
    return [
        one
        for one in literals()
        if one.file not in OF_TIDB
        and not one.text.startswith(exempt)
        and not any(one.pattern.match(text) for text in texts)
    ]
