"""Which server is rebuilt in which way, and how that is known: ``docs/reference/versions.md``, written from the tests' own markers.

``@pytest.mark.runs(server, way)`` marks a test that does it for real on that server, ``@pytest.mark.by_hand(server, way)`` one that
does so only on a machine whose developer has installed the programs, ``@pytest.mark.recorded(server, way)`` one that
compares with recorded output of that server's tool. Where no test says anything, the plan's own checks are asked
whether they refuse it. ``script/matrix`` writes the file; ``tests/test_matrix.py`` fails where it is not what the markers say.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dbops.engine.facts.instance import Tool
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.tidb import is_tidb
from dbops.engine.methods import METHODS
from dbops.engine.planning.checks import clone, pair
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.states import Severity
from tests import situation_table
from tests.engine.builders import inputs

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "reference" / "versions.md"
MARKS = ("runs", "by_hand", "recorded")


@dataclass(frozen=True, slots=True)
class Server:
    """A series of servers, by one version of it. ``tool`` is a version of its backup tool, ``None`` where none is released."""

    name: str
    version: str
    backup_tool: str
    tool: str | None


SERVERS = (
    Server("MariaDB 10.6", "10.6.22-MariaDB", "mariadb-backup 10.6", "10.6.22"),
    Server("MariaDB 10.11", "10.11.19-MariaDB", "mariadb-backup 10.11", "10.11.19"),
    Server("MariaDB 11.4", "11.4.8-MariaDB", "mariadb-backup 11.4", "11.4.8"),
    Server("MariaDB 11.8", "11.8.6-MariaDB", "mariadb-backup 11.8", "11.8.6"),
    Server("MySQL 5.7", "5.7.42", "XtraBackup 2.4", "2.4.9"),
    Server("MySQL 8.0", "8.0.46", "XtraBackup 8.0", "8.0.35-30"),
    Server("MySQL 8.4", "8.4.10", "XtraBackup 8.4", "8.4.0-5"),
    # 9.7.1-rc1 is the newest: percona/pxb-docs, release-notes/9.7.1-rc1.md
    Server("MySQL 9.7", "9.7.4", "none released", None),
    Server("TiDB 8.4", "8.0.11-TiDB-v8.4.0", "BR (not by dbops)", None),
)
#: Beside the methods: what dbops does with a server too.
ALSO = {
    "shared read": "several replicas from one read of the source",
    "backup": "a physical backup that dbops makes",
    "restore test": "a restore test of such a backup",
    "load test": "a [load test](../how-to/load-tests.md) on a scratch server",
    "catch-up": "relaxed durability while a copy rolls forward",
    "statements": "each SQL statement that dbops sends, a probe, and the [accounts](../how-to/accounts.md)",
}
WAYS = (*METHODS, *ALSO)
RUN, BY_HAND, RECORDED, UNTRIED = "**run here**", "run by hand", "by recorded output", "not tried"
KNOWN_BY = {"runs": RUN, "by_hand": BY_HAND, "recorded": RECORDED}
#: Day and versions of the last run of the tests with the marker ``by_hand``, by server.
RAN_BY_HAND = {
    "MySQL 5.7": "2026-11-26: MySQL 5.7.22 with XtraBackup 2.4.20",
    "TiDB 8.4": "2026-11-26: TiDB 8.4.0 (development version of 2024-11-25) with its own store",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """What one marker says. ``test`` is its file."""

    kind: str
    server: str
    way: str
    test: str


def marks(folder: Path = ROOT / "tests") -> list[Mark]:
    """Return every marker of the tests, in the order of their files.

    Raises:
        ValueError: one names a server or a way that is not in the table, or not by two plain strings.
    """
    found = []
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (kind := _kind(node.func)):
                found.append(Mark(kind, *_words(node, path), path.relative_to(folder.parent).as_posix()))
    return found


def _kind(function: ast.expr) -> str:
    """Return which of our markers ``pytest.mark.NAME`` is, ``""`` for anything else."""
    is_ours = (
        isinstance(function, ast.Attribute)
        and function.attr in MARKS
        and isinstance(function.value, ast.Attribute)
        and function.value.attr == "mark"
    )
    return function.attr if is_ours and isinstance(function, ast.Attribute) else ""


def _words(call: ast.Call, path: Path) -> tuple[str, str]:
    words = [item.value for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    if len(words) != 2 or words[0] not in {server.name for server in SERVERS} or words[1] not in WAYS:
        raise ValueError(f"{path}:{call.lineno}: a marker names a server and a way of tests/matrix.py: {words}")
    return words[0], words[1]


def refusal(server: Server, way: str) -> str:
    """Return why a plan for two healthy servers of that series is refused, ``""`` where it is not."""
    if is_tidb(server.version):
        # it is read and loaded, and nothing else
        return "" if way in ("statements", "load test") else "TiDB replicates its data itself (`flavor.tidb`)"
    world = _world(server)
    checks = {
        "clone": (clone.both_can_clone,),
        "dump": (pair.versions_fit,),
        "catch-up": (),
        "load test": (),
        "statements": (),
    }.get(way, (pair.versions_fit, pair.tools_are_there))
    findings = (finding for check in checks for finding in check(world))
    first = next((finding for finding in findings if finding.severity is Severity.REFUSAL), None)
    if first is None:
        return ""
    if server.tool is None and first.code.startswith("tools."):
        return f"no XtraBackup of this series is released (`{first.code}`)"
    if way == "clone" and server.name.startswith("MariaDB"):
        return f"only MySQL has it (`{first.code}`)"
    # Without "MySQL 5.7.42 -> 5.7.42", which is of a pair.
    return f"{first.seen.rpartition(': ')[2].rstrip('.')} (`{first.code}`)"


def _world(server: Server) -> PlanInputs:
    base = inputs()
    return replace(
        base,
        source=_member(base.source, server),
        target=_member(base.target, server),
        primary=_member(base.primary, server) if base.primary else None,
    )


def _member(member: KnownInstance, server: Server) -> KnownInstance:
    """The member as a server of that series, on a host with every program that there is for it."""
    assert member.facts
    assert member.facts.host
    assert member.facts.server
    flavor = flavor_for(server.version)
    numbers = server.version.partition("-")[0]
    tools = {name: Tool(f"/usr/bin/{name}", numbers) for name in (*flavor.server_programs, *flavor.client_programs)}
    tools |= {name: Tool(f"/usr/bin/{name}") for name in ("bash", "flock", "setsid", "setpriv", "ssh", "ssh-keygen")}
    if server.tool:
        tools |= {name: Tool(f"/usr/bin/{name}", server.tool) for name in flavor.backup_programs}
        tools |= {name: Tool(f"/usr/bin/{name}") for name in flavor.unpack_programs}
    facts = replace(
        member.facts,
        host=replace(member.facts.host, tools=tools),
        server=replace(member.facts.server, flavor=flavor.name, version=numbers),
    )
    return replace(member, facts=facts)


def cell(server: Server, way: str, found: list[Mark]) -> str:
    """Return what the table says of one way on one server."""
    kinds = {mark.kind for mark in found if (mark.server, mark.way) == (server.name, way)}
    if kind := next((kind for kind in MARKS if kind in kinds), ""):
        return KNOWN_BY[kind]
    reason = refusal(server, way)
    return f"no: {reason}" if reason else UNTRIED


def table(header: list[str], rows: Iterator[list[str]] | list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def document(found: list[Mark] | None = None) -> str:
    """Return the text of ``docs/reference/versions.md``."""
    found = marks() if found is None else found
    cells = [[server.name, server.backup_tool, *(cell(server, way, found) for way in WAYS)] for server in SERVERS]
    said: dict[tuple[str, str, str], list[str]] = {}
    for mark in found:
        files = said.setdefault((mark.server, mark.way, mark.kind), [])
        if mark.test not in files:
            files.append(mark.test)
    tests = [
        [server.name, way, KNOWN_BY[kind], ", ".join(f"`{file}`" for file in said[key])]
        for server in SERVERS
        for way in WAYS
        for kind in MARKS
        if (key := (server.name, way, kind)) in said
    ]
    return "\n".join(
        [
            *HEAD,
            *table(["server", "backup tool", *(f"`{way}`" if way in METHODS else way for way in WAYS)], cells),
            *MIDDLE,
            *table(["server", "way", "known by", "tests"], tests),
            "",
        ]
    )


HEAD = [
    "# Versions",
    "",
    "<!-- script/matrix writes this file from the tests' markers; tests/test_matrix.py holds it. -->",
    "",
    "`xbstream`, `clone`, `archive` and `dump` are [methods](../explanation/methods.md); "
    + "; ".join(f"{way}: {meaning}" for way, meaning in ALSO.items())
    + ".",
    "",
]
MIDDLE = (
    f"""
* {RUN}: `script/test all` does it with real servers and compares the data. It uses the machine's own MariaDB (10.11 on Debian 12).
  It unpacks Debian's packages of MariaDB 11.8 and MySQL 9.7 into folders. If they are unavailable, their tests are skipped.
  Each test run ends with a list of what ran and what did not.
* {BY_HAND}: the same tests do it where a developer has installed the server with its XtraBackup (`mysqld`, `xtrabackup` and
  `xbstream`). No package registry has this tool, so `script/test` skips them elsewhere. `tidb-server` is built from its source.
  Last run: {"; ".join(RAN_BY_HAND.values())}.
* {RECORDED}: tests compare command lines, log lines, failures and metadata files with the recorded output of real runs
  (`tests/engine/recorded`).
* {UNTRIED}: dbops offers it, but no test has done it on that series.
* no: it does not exist, or a plan is refused; see the code in [checks](checks.md).

Other series count as their neighbours: MariaDB from 10.3, MySQL and Percona Server from 5.7. MySQL 9.0 to 9.6 need an XtraBackup of
exactly their series.

## Tests
""".splitlines()
    + [""]
)


def main(words: list[str]) -> int:
    """Write both pages; with ``--check`` only say whether they are current."""
    pages = {DOCUMENT: document(), situation_table.DOCUMENT: situation_table.document()}
    if words == ["--check"]:
        return 0 if all(path.read_text(encoding="utf-8") == text for path, text in pages.items()) else 1
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
