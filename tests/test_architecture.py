"""What import-linter cannot say: sizes, and that the engine needs Python alone. The limits are in `docs/explanation/architecture.md`."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES, FUNCTION_LINES = 400, 60
SOURCES = sorted(
    path
    for folder in ("dbops", "lab", "script/lib", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if "migrations" not in path.parts
)
PRODUCT = [path for path in SOURCES if path.is_relative_to(ROOT / "dbops")]
ENGINE = [path for path in PRODUCT if path.is_relative_to(ROOT / "dbops" / "engine")]
#: Sent to hosts and run there, as the scripts beside it are.
ON_HOSTS = [path for path in ENGINE if "scripts" in path.parts and path.name != "__init__.py"]
DRIVERS = [path for path in PRODUCT if path.is_relative_to(ROOT / "dbops" / "drivers")]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def imported(path: Path) -> set[str]:
    """Dotted names of the modules that a file imports."""
    found = set()
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            found.add(".".join([*base, *([node.module] if node.module else [])]))
        elif isinstance(node, ast.ImportFrom) and node.module == "dbops":
            found |= {f"dbops.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def strangers(path: Path, *allowed: str) -> set[str]:
    """What a file imports beyond the standard library and the packages that it may know."""
    return {
        module
        for module in imported(path)
        if module.partition(".")[0] not in sys.stdlib_module_names
        and not any(module == package or module.startswith(package + ".") for package in allowed)
    }


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_files_and_functions_stay_within_their_limits(path):
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES, f"{name(path)} has {text.count(chr(10))} lines: it is two ideas"
    for function in functions(ast.parse(text)):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        assert lines <= FUNCTION_LINES, f"{name(path)}: {function.name} has {lines} lines"


@pytest.mark.parametrize("path", PRODUCT, ids=name)
def test_functions_import_nothing(path):
    for function in functions(ast.parse(path.read_text())):
        inside = [node.lineno for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
        assert inside == [], f"{name(path)}: {function.name} hides an import, and with it a cycle"


@pytest.mark.parametrize("path", ENGINE, ids=name)
def test_engine_imports_only_python(path):
    assert strangers(path, "dbops.engine") == set()


@pytest.mark.parametrize("path", [path for path in ENGINE if path not in ON_HOSTS], ids=name)
def test_engine_uses_no_clock_and_no_network(path):
    """What it needs of the world comes through ``dbops.engine.ports``."""
    assert imported(path) & {"asyncio", "http", "os", "socket", "subprocess", "threading", "time", "urllib"} == set()


@pytest.mark.parametrize("path", ON_HOSTS, ids=name)
def test_host_scripts_are_never_imported(path):
    """It is text to the engine, as the shell's scripts are, and it needs an old Python alone."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    assert strangers(path) == set()
    assert [name(other) for other in SOURCES if module in other.read_text()] == []
    ast.parse(path.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("path", DRIVERS, ids=name)
def test_drivers_import_only_the_engine_and_their_library(path):
    libraries = ("apprise", "opentelemetry", "paramiko", "pymysql", "requests")
    assert strangers(path, "dbops.engine", "dbops.drivers", *libraries) == set()


def test_import_check_finds_each_kind_of_import(tmp_path, monkeypatch):
    """A test of these tests: each kind of import is found."""
    package = tmp_path / "dbops" / "engine"
    package.mkdir(parents=True)
    file = package / "sample.py"
    file.write_text(
        "import time\nimport celery.app\nfrom dbops import models\nfrom ..drivers import ssh\nfrom . import facts\n"
        "def f():\n    from dbops.web import views\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert imported(file) == {"time", "celery.app", "dbops.models", "dbops.drivers", "dbops.engine", "dbops.web"}
    assert strangers(file, "dbops.engine") == {"celery.app", "dbops.models", "dbops.drivers", "dbops.web"}


def test_product_takes_its_time_from_one_clock() -> None:
    """``dbops.database.clock``: the wall clocks of two machines differ. Django ends its sessions by the machine's, and the sample has no
    processes.
    """
    folder = ROOT / "dbops"
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"\btimezone\.now\(|\btime\.time\(|datetime\.now\(", path.read_text(encoding="utf-8"))
    }
    found = {name for name in found if not name.startswith("sample/")}
    assert found <= {"database/clock.py", "security/sessions.py", "management/commands/sample.py"}


def test_no_lookup_ignores_case_in_the_database() -> None:
    """SQLite folds ASCII alone, MariaDB what the collation says: names would be equal on one database and not on the other."""
    lookup = re.compile(r"__(iexact|icontains|istartswith|iendswith|iregex)\b")
    assert [name(path) for path in PRODUCT if lookup.search(path.read_text())] == []


#: Functions whose arguments after the first are shown.
SHOWN_BY = {"ok", "warning", "refusal", "unknown", "Refused", "unchanged"}
SHOWN_FOLDERS = ("engine/planning", "engine/schedule", "engine/methods", "loaders", "operations")
#: Its answers are read by programs.
NOT_ON_PAGES = {"dbops/operations/backup_reports.py"}
SENTENCE = re.compile(r"[A-Za-z]{2,} \S*[A-Za-z]{2}")


def called(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def english_of(node: ast.expr) -> list[str]:
    """Sentences that no phrase holds: literals, f-strings, and the branches of conditions."""
    if isinstance(node, ast.IfExp):
        return english_of(node.body) + english_of(node.orelse)
    if isinstance(node, ast.JoinedStr):
        text = " ".join(part.value for part in node.values if isinstance(part, ast.Constant))
        return [text] if SENTENCE.search(text) else []
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and SENTENCE.search(node.value)
    return [str(node.value)] if is_text else []


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in PRODUCT
        if name(path).startswith(tuple(f"dbops/{one}" for one in SHOWN_FOLDERS))
        if name(path) not in NOT_ON_PAGES
    ],
    ids=name,
)
def test_texts_of_findings_and_refusals_are_phrases(path):
    """Pages show them in another language. ``script/translate`` finds a pattern only as a literal."""
    for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
        if called(call) in ("phrase", "phrases"):
            patterns = call.args[: 1 if called(call) == "phrase" else 2]
            assert all(isinstance(one, ast.Constant) for one in patterns), f"{name(path)}:{call.lineno}: no literal"
        elif called(call) in SHOWN_BY:
            shown = [*call.args[1:], *(one.value for one in call.keywords)]
            assert [text for one in shown for text in english_of(one)] == [], f"{name(path)}:{call.lineno}: no phrase"


MARKS = {"_", "gettext", "gettext_lazy", "ngettext", "pgettext", "phrase", "phrases"}


@pytest.mark.parametrize("path", PRODUCT, ids=name)
def test_texts_are_not_marked_inside_of_f_strings(path):
    """``script/translate`` does not find them there, so that they would stay English."""
    strings = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.JoinedStr)]
    assert [node.lineno for one in strings for node in ast.walk(one) if called(node) in MARKS] == []


#: Schemas of the API that show the class of the same name. Django names commands.
SHOWN_AS = {"Command", "Finding", "Instance", "PlannedStep", "StartOption", "Step"}


def test_a_class_name_stands_for_one_idea() -> None:
    """A name in an import or a stack trace tells which class it is."""
    places: dict[str, list[str]] = {}
    for path in PRODUCT:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name(path))
    shared = {one: found for one, found in places.items() if len(found) > 1}
    assert {one: found for one, found in shared.items() if one not in SHOWN_AS} == {}
    for one in SHOWN_AS - {"Command"}:
        inside = [path for path in shared[one] if not path.startswith("dbops/web/api/schemas/")]
        assert len(inside) == 1, f"{one}: {inside}"
