"""Every error code that the code can raise has an entry in the error catalogue, and every entry is raised somewhere.

Codes are read from the source: the first argument of the errors' constructors, also where it is handed through a helper's
parameter. What is put together at run time is in ``DYNAMIC``, with the place where its codes are read from.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dbops.drivers.jobs import LAUNCHER, REFUSALS
from dbops.engine import errors
from dbops.engine.backups.completeness import OF_A_DUMP
from dbops.engine.catalogue import CATALOGUE, SECTIONS
from dbops.engine.catalogue.entries import Entry
from dbops.engine.flavors.failures import CATALOGUE as KNOWN_FAILURES
from dbops.engine.load_tests import result as load_tests
from dbops.engine.restore_tests.result import FAILURES, HOSTS, OPERATORS
from dbops.security.vault_settings import VARIABLES

ROOT = Path(__file__).parents[1]
WHO = {
    name: kind.who
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.DbopsError) and kind is not errors.DbopsError
}
KINDS = (errors.Refused, errors.RemoteFailure, errors.Cancelled, errors.Bug)
CODE = re.compile(r"[a-z_]+(\.[a-z_]+)?")
SETTING = re.compile(r"DBOPS_[A-Z_]*[A-Z]")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Codes = set[tuple[str, str]]


@dataclass(frozen=True)
class Raised:
    """A call of an error's constructor: where, whose turn it is, and its first argument."""

    place: str
    who: str
    code: ast.expr | None
    module: ast.Module
    function: Function | None


def first_argument(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else next((word.value for word in call.keywords if word.arg == "code"), None)


def own_classes(tree: ast.AST) -> dict[str, str]:
    """Classes that a module derives from the errors: name to who must act."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    bases = ((node.name, base.id) for node in classes for base in node.bases if isinstance(base, ast.Name))
    return {name: WHO[base] for name, base in bases if base in WHO}


def constructors(tree: ast.AST) -> dict[str, str]:
    """The error classes and what a module makes of them: classes without a code of their own, and variables that are one
    or the other. Name to who must act."""
    kinds = dict(WHO)
    own = own_classes(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in own:
            if not any(isinstance(part, Function) and part.name == "__init__" for part in node.body):
                kinds[node.name] = own[node.name]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp | ast.Name):
            parts = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
            if all(isinstance(part, ast.Name) and part.id in WHO for part in parts):
                kinds |= {target.id: "either" for target in node.targets if isinstance(target, ast.Name)}
    return kinds


def called_name(function: ast.expr) -> str:
    """The class that is called: ``Refused`` of ``Refused(...)`` and of ``Refused.unchanged(...)``."""
    if isinstance(function, ast.Attribute) and function.attr == "unchanged" and isinstance(function.value, ast.Name):
        return function.value.id
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def is_own_constructor(node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "__init__"
        and isinstance(node.func.value, ast.Call)
        and isinstance(node.func.value.func, ast.Name)
        and node.func.value.func.id == "super"
    )


def raised_in(path: Path) -> Iterator[Raised]:
    tree = ast.parse(path.read_text())
    kinds, own = constructors(tree), own_classes(tree)
    module = path.relative_to(ROOT).as_posix()

    def visit(node: ast.AST, names: tuple[str, ...], function: Function | None) -> Iterator[Raised]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names, function = (*names, node.name), node
        elif isinstance(node, ast.ClassDef):
            names = (*names, node.name)
        elif isinstance(node, ast.Call):
            called = called_name(node.func)
            inside = next((own[name] for name in names if name in own), None) if is_own_constructor(node) else None
            if who := inside or kinds.get(called):
                yield Raised(f"{module}:{'.'.join(names)}", who, first_argument(node), tree, function)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, names, function)

    return visit(tree, (), None)


def handed_through(raised: Raised) -> Iterator[ast.expr | None]:
    """What callers in the same module give for the helper's parameter that becomes the code."""
    function, name = raised.function, raised.code
    parameters = [item.arg for item in function.args.args] if function else []
    is_helper = isinstance(name, ast.Name) and name.id in parameters
    if function is None or not isinstance(name, ast.Name) or not is_helper or not function.name.startswith("_"):
        yield raised.code  # a helper that other modules may call would hide their codes
        return
    position = parameters.index(name.id)
    for node in ast.walk(raised.module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function.name:
            yield node.args[position] if len(node.args) > position else None


def returned_first(path: str, *functions: str) -> set[str]:
    """Return the first text constants of the tuples that these functions return."""
    tree = ast.parse((ROOT / path).read_text())
    return {
        node.value.elts[0].value
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)
        if isinstance(node.value.elts[0], ast.Constant)
    }


def catalogue() -> Codes:
    return {(failure.code, "host") for _, failure in KNOWN_FAILURES}


def of_evidence() -> Codes:
    """A known failure's code, or that of the evidence that is missing."""
    return {
        (code, "host")
        for code in returned_first("dbops/engine/rebuilds/copy_check.py", "first_cause", "_killed", "_missing")
    }


def of_fetch() -> Codes:
    """The same of a finished backup that was fetched."""
    own = returned_first("dbops/engine/rebuilds/archive_check.py", "_broken", "_incomplete", "_refused")
    return of_evidence() | {(code, "host") for code in own}


def of_launcher() -> Codes:
    """What the script on the host answers with ``give_up CODE TEXT``."""
    codes = re.findall(r"give_up (host\.[a-z_]+)", LAUNCHER)
    return {(code, "operator" if code in REFUSALS else "host") for code in codes}


def of_load_test_findings() -> Codes:
    """What only the plan of a load test finds. Space and time are also failures of its job."""
    text = (ROOT / "dbops/engine/load_tests/plan.py").read_text()
    found = set(re.findall(r'LoadTestFinding\(\s*"(load_test\.[a-z_]+)"', text))
    return {(code, "operator") for code in found - {"load_test.space", "load_test.time"}}


#: Where the code is no constant: the place, and how its codes are read.
DYNAMIC: dict[str, Callable[[], Codes]] = {
    "dbops/engine/rebuilds/copy_check.py:judge_copy": of_evidence,
    "dbops/engine/rebuilds/archive_check.py:judge_fetch": of_fetch,
    "dbops/engine/rebuilds/archive_check.py:judge_load": lambda: of_fetch() | {("dump.server", "host")},
    "dbops/engine/backups/completeness.py:_known_cause": lambda: (
        catalogue() | {(code, "host") for code in OF_A_DUMP.values()}
    ),
    "dbops/engine/rebuilds/steps/preflight/tool_trial.py:_known": catalogue,
    "dbops/drivers/jobs.py:HostJobs._answer": of_launcher,
    "dbops/engine/restore_tests/result.py:_refuse": lambda: (
        {(f"restore_test.{kind}", "host") for kind in HOSTS}
        | {(f"restore_test.{kind}", "operator") for kind in (*OPERATORS, "refused")}
    ),
    "dbops/engine/restore_tests/result.py:_fail": lambda: (
        {(f"restore_test.{kind}", "host") for kind in FAILURES} | {("restore_test.failed", "host")}
    ),
    "dbops/engine/load_tests/result.py:_refuse": lambda: (
        {(f"load_test.{kind}", "host") for kind in load_tests.HOSTS}
        | {(f"load_test.{kind}", "operator") for kind in (*load_tests.OPERATORS, "not_as_planned")}
    ),
    "dbops/engine/load_tests/result.py:_fail": lambda: (
        {(f"load_test.{kind}", "host") for kind in (*load_tests.FAILURES, "failed", "backup_unusable")}
    ),
}


def collect() -> tuple[Codes, list[str], set[str]]:
    """Return every code with who must act, the places whose codes cannot be read, and those of DYNAMIC that are there."""
    codes, unread, seen = catalogue() | of_load_test_findings(), [], set()
    for path in sorted((ROOT / "dbops").rglob("*.py")):
        for raised in raised_in(path):
            if raised.place in DYNAMIC:
                codes |= DYNAMIC[raised.place]()
                seen.add(raised.place)
                continue
            for code in handed_through(raised):
                if isinstance(code, ast.Constant) and isinstance(code.value, str):
                    codes.add((code.value, raised.who))
                else:
                    unread.append(raised.place)
    return codes, unread, seen


CODES, UNREAD, SEEN = collect()


def test_error_scan_reads_every_raise() -> None:
    assert UNREAD == [], "write the code as a constant, or name the place in DYNAMIC"
    assert set(DYNAMIC) == SEEN


def test_error_scan_finds_known_codes() -> None:
    """A constant, a helper's parameter, a class of its own, the catalogue, the evidence, and the script on the host."""
    known = {("mysql.error", "host"), ("plan.stale", "operator"), ("fleet.file", "operator"), ("bug", "dbops")}
    known |= {("stream.disk_full", "host"), ("stream.unverified", "host"), ("host.fenced", "operator")}
    known |= {("flavor.unsupported", "operator"), ("rebuild.cancelled", "none")}
    assert known - CODES == set()


def test_catalogue_has_each_code_of_the_launcher_and_of_known_failures() -> None:
    assert {code for code, _ in of_launcher() | catalogue()} <= set(CATALOGUE)


@pytest.mark.parametrize("code", sorted({code for code, _ in CODES}))
def test_code_has_an_entry(code: str) -> None:
    assert CODE.fullmatch(code)
    assert CATALOGUE[code].code == code


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.code)
def test_entry_is_used_and_says_who_must_act(entry: Entry) -> None:
    assert {who for name, who in CODES if name == entry.code} == {entry.who}


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.code)
def test_entry_has_short_texts_and_names_settings_that_exist(entry: Entry) -> None:
    known = (ROOT / "dbops" / "settings.py").read_text() + " ".join(VARIABLES.values())
    for text in (entry.summary, entry.state, entry.next_step):
        assert text.endswith(".")
        assert text.count("`") % 2 == 0
        assert len(re.findall(r"[.?!](?= |$)", text)) <= 4
        assert all(setting in known for setting in SETTING.findall(text))


def test_no_code_has_two_entries() -> None:
    assert len(CATALOGUE) == sum(len(section.entries) for section in SECTIONS)


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.code)
def test_error_takes_state_and_next_step_from_the_catalogue_unless_its_place_knows_more(entry: Entry) -> None:
    kind = next(kind for kind in KINDS if kind.who == entry.who)
    error = kind(entry.code, "Testing")
    assert (error.state, error.next_step) == (entry.state, entry.next_step)
    assert entry.code in str(error)
    error = kind(entry.code, "Testing", state="here", next_step="there")
    assert (error.state, error.next_step) == ("here", "there")
