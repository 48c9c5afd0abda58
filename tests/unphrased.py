"""Find texts of errors, problems of entered values, histories and outcomes that are no phrases, so that no page can translate them.

``python -m tests.unphrased`` lists them.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.test_errors import constructors

ROOT = Path(__file__).resolve().parents[1]
#: Always in English: the API, the command line, and scripts that run on hosts.
ENGLISH = (
    *(
        "dbops/web/api/",
        "dbops/web/bearer.py",
        "dbops/web/views/backup_reports.py",
        "dbops/operations/backup_reports.py",
    ),
    *("dbops/management/", "dbops/engine/hosts/scripts/", "dbops/engine/catalogue/"),
)
#: What a value that a person entered, or a listed one, is refused with.
REFUSALS = ("ValueError", "BadListing", "FileNotFoundError", "OSError")
#: Of these modules no page shows such an error: they say it at the start, or to other code.
NOT_SHOWN = (
    *("dbops/lib/environment.py", "dbops/engine/notifications/addresses.py", "dbops/engine/schedule/calendar.py"),
    *("dbops/engine/backups/flags.py", "dbops/engine/load_tests/round_parsing.py", "dbops/messaging/"),
    *("dbops/engine/rebuilds/steps/copy/archive.py", "dbops/database/config.py"),
    *("dbops/security/login_settings.py", "dbops/security/vault_settings.py"),
)
#: Values, which are no words of dbops: names, commands, statements, sizes and times.
VALUES = re.compile(
    r"^'(port|ssh_port|one|sub|whsec_|token|clusters|servers|test|dbops_load)'$|^'(rm|cd) |^f\"(SET GLOBAL|CREATE USER) |[MG]iB'$| UTC'$"
    # said by tools of the sample
    r"|^'(zstd: error|error 1040)"
    # between names
    r"|^' (and|or|nor) '$|^'(not_as_planned|refused)'$"
)
#: Functions that write a line of a history: where its text is.
LINES = {
    **dict.fromkeys(("say", "ask_again"), 0),
    **dict.fromkeys(
        (
            "log_event",
            "log_run_event",
            "new_event",
            "log_trouble",
            "mark_unreachable",
            "mark_removed",
            "job_must_succeed",
        ),
        1,
    ),
    **dict.fromkeys(("end_queued", "reprioritize", "set_rate", "end_unknown", "finish", "end_sweep"), 2),
}
#: Arguments and attributes that are texts of errors, or outcomes.
PARTS = ("operation", "cause", "state", "next_step")
MAKERS = ("phrase", "phrases")
_WORD = re.compile(r"[A-Za-z]{2,}")
_CODE = re.compile(r"[a-z_]+\.[a-z_]+")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """A parsed module: its functions, constants and imports of ours by name."""

    path: str
    tree: ast.Module
    functions: dict[str, Function] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)

    def calls(self, name: str) -> Iterator[ast.Call]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and called(node) == name:
                yield node


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


@cache
def module_of(path: str) -> Module:
    return parsed(path, (ROOT / path).read_text())


def parsed(path: str, source: str) -> Module:
    module = Module(path, ast.parse(source))
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            module.functions[node.name] = node
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dbops."):
            module.imports |= {name.asname or name.name: (node.module or "", name.name) for name in node.names}
    for node in module.tree.body:
        if isinstance(node, ast.Assign):
            module.constants |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
    return module


def imported(module: Module, name: str) -> tuple[Module, str] | None:
    """Return the module of ours that defines an imported name, and its name there."""
    source, original = module.imports.get(name, ("", ""))
    path = source.replace(".", "/") + ".py"
    return (module_of(path), original) if source and (ROOT / path).exists() else None


def is_text(node: ast.expr) -> bool:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    is_word = any(_WORD.search(text) and not _CODE.fullmatch(text) for text in texts)
    return is_word and not VALUES.search(ast.unparse(node))


def loses_phrase(node: ast.expr) -> bool:
    """Whether a phrase, or a pattern of words, becomes plain text here."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return any(isinstance(side, ast.Call) and called(side) in MAKERS for side in (node.left, node.right))
    return isinstance(node, ast.Call) and called(node) == "format"


@dataclass
class Search:
    """The texts that an expression can be. Attributes, and what other classes return, are followed no further."""

    seen: set[int] = field(default_factory=set)

    def texts(self, node: ast.expr, module: Module, function: Function | None) -> Iterator[tuple[str, int, str]]:
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        if is_text(node) or loses_phrase(node):
            yield module.path, node.lineno, ast.unparse(node)
        for part in self._parts(node):
            yield from self.texts(part, module, function)
        if isinstance(node, ast.Name):
            yield from self._of_name(node.id, module, function)
        elif isinstance(node, ast.Call) and called(node) not in MAKERS:
            yield from self._of_call(node, module)

    @staticmethod
    def _parts(node: ast.expr) -> Iterator[ast.expr]:
        if isinstance(node, ast.IfExp):
            yield from (node.body, node.orelse)
        elif isinstance(node, ast.BoolOp):
            yield from node.values
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield from (node.left, node.right)
        elif isinstance(node, ast.Call) and called(node) in MAKERS:
            yield from (word.value for word in node.keywords)
        elif isinstance(node, ast.Call) and called(node) in {"joined", "join", "get"}:
            yield from (
                *node.args[called(node) == "get" :],
                *([node.func.value] if isinstance(node.func, ast.Attribute) else []),
            )
        elif isinstance(node, ast.Tuple | ast.List):
            yield from node.elts
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            yield node.elt
        elif isinstance(node, ast.Dict):
            yield from node.values
        elif isinstance(node, ast.Subscript | ast.Starred):
            yield node.value

    def _of_name(self, name: str, module: Module, function: Function | None) -> Iterator[tuple[str, int, str]]:
        if function and (found := list(assigned(function, name))):
            for value in found:
                yield from self.texts(value, module, function)
        elif function and name in (names := [item.arg for item in (*function.args.args, *function.args.kwonlyargs)]):
            yield from self._of_callers(name, [one for one in names if one not in {"self", "cls"}], module, function)
        elif name in module.constants:
            yield from self.texts(module.constants[name], module, None)
        elif (there := imported(module, name)) and there[1] in there[0].constants:
            yield from self.texts(there[0].constants[there[1]], there[0], None)

    def _of_callers(
        self, name: str, names: list[str], module: Module, function: Function
    ) -> Iterator[tuple[str, int, str]]:
        for call in module.calls(function.name):
            around = function_around(module, call)
            given = {word.arg: word.value for word in call.keywords}
            position = names.index(name)
            value = given.get(name) or (call.args[position] if position < len(call.args) else None)
            if value is not None:
                yield from self.texts(value, module, around)

    def _of_call(self, call: ast.Call, module: Module) -> Iterator[tuple[str, int, str]]:
        name = called(call)
        there = (module, name) if name in module.functions else imported(module, name)
        if there and (function := there[0].functions.get(there[1])) and id(function) not in self.seen:
            self.seen.add(id(function))
            for node in ast.walk(function):
                if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
                    yield from self.texts(node.value, there[0], function)


def function_around(module: Module, wanted: ast.AST) -> Function | None:
    found = [
        one
        for one in ast.walk(module.tree)
        if isinstance(one, Function) and any(node is wanted for node in ast.walk(one))
    ]
    return found[-1] if found else None


def assigned(function: Function, name: str) -> Iterator[ast.expr]:
    """Yield what a function gives one of its variables."""
    for node in ast.walk(function):
        if isinstance(node, ast.NamedExpr) and node.target.id == name:
            yield node.value
        elif isinstance(node, ast.Call) and called(node) == "append" and ast.unparse(node.func) == f"{name}.append":
            yield node.args[0]
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and target.id == name:
                yield node.value
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=True)
                yield from (value for one, value in pairs if isinstance(one, ast.Name) and one.id == name)
            elif isinstance(target, ast.Tuple) and any(
                isinstance(one, ast.Name) and one.id == name for one in target.elts
            ):
                yield node.value


def shown(call: ast.Call, errors: set[str]) -> Iterator[ast.expr]:
    """Yield the arguments of a call that a page shows."""
    name = called(call)
    is_error = name in errors or (
        name in {"unchanged", "__init__"}
        and (name == "__init__" or getattr(getattr(call.func, "value", None), "id", "") in errors)
    )
    if is_error:
        yield from call.args[1:]
        yield from (word.value for word in call.keywords if word.arg in PARTS)
    elif name in REFUSALS:
        yield from call.args
    elif name == "add" and ast.unparse(call.func).endswith("errors.add"):
        yield from call.args[1:]
    elif name in LINES and len(call.args) > LINES[name]:
        yield call.args[LINES[name]]
    elif name == "progress":
        yield from (word.value for word in call.keywords if word.arg == "note")
    elif name in {"finish", "change", "create_due_run", "update", "with_phrases"}:
        yield from (word.value for word in call.keywords if word.arg == "outcome")


def unphrased(path: str) -> Iterator[tuple[str, int, str]]:
    """Yield file, line and source of each text that a module gives an error, a history or an outcome, and that is no phrase."""
    return unphrased_in(module_of(path))


def unphrased_in(module: Module) -> Iterator[tuple[str, int, str]]:
    search = Search()
    errors = set(constructors(module.tree))
    for node in ast.walk(module.tree):
        given = list(shown(node, errors)) if isinstance(node, ast.Call) else []
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Attribute) and one.attr in PARTS for one in node.targets
        ):
            given = [node.value]
        for value in given:
            found = search.texts(value, module, function_around(module, node))
            yield from (one for one in found if not one[0].startswith((*ENGLISH, *NOT_SHOWN)))


def modules() -> list[str]:
    found = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "dbops").rglob("*.py")))
    return [path for path in found if not path.startswith(ENGLISH)]


def main() -> None:
    """Print the texts that are no phrases."""
    for path, line, text in sorted({one for module in modules() for one in unphrased(module)}):
        print(f"{path}:{line}: {text}")


if __name__ == "__main__":
    main()
