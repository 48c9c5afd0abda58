"""What ran on what: the rebuilds and backups of a test run, by server, method and end, read from each dashboard and listed at its end."""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import run_folder

if TYPE_CHECKING:
    from tests.stack import Stack

#: The file in which processes side by side note it; set by the process that tells it.
PLACE = "DBOPS_TESTS_RAN"
BEGAN = pytest.StashKey[Path]()
FLAVORS = {"mariadb": "MariaDB", "mysql": "MySQL"}
KINDS = {
    "rebuild by": "SELECT CASE WHEN r.leader_id IS NULL THEN r.method ELSE 'a shared read' END AS method, r.status, i.name"
    " FROM dbops_rebuild r JOIN dbops_instance i ON i.id = r.target_id",
    "backup,": "SELECT r.method, r.status, i.name FROM dbops_backuprun r JOIN dbops_instance i ON i.id = r.instance_id"
    " WHERE r.origin = 'managed'",
    "restore test of": "SELECT r.method, p.status, i.name FROM dbops_restoretest p JOIN dbops_backuprun r ON r.id = p.run_id"
    " JOIN dbops_instance i ON i.id = r.instance_id",
    "load test of": "SELECT CASE WHEN t.run_id IS NULL THEN 'an empty server' ELSE 'a backup' END AS method, t.status, i.name"
    " FROM dbops_loadtest t JOIN dbops_instance i ON i.id = t.source_id WHERE i.role <> 'tidb'",
}
#: The property of a test under which its markers reach the process that prints.
CLAIM = "matrix"
#: The names in the list of the ways of docs/reference/versions.md; a relaxed setting leaves no row of its own.
SEEN_AS = {
    "backup": "backup, physical",
    "restore test": "restore test of physical",
    "shared read": "rebuild by a shared read",
    "load test": "load test of",
    "catch-up": "",
}
#: Ways that need no dashboard, which would note them.
UNNOTED = ("statements",)


def note(stack: "Stack") -> None:
    """Note what a dashboard made before it is removed. One whose tables are gone has nothing to list."""
    if not (place := os.environ.get(PLACE)):
        return
    with Path(place).open("a", encoding="utf-8") as file:
        try:
            found = list(_made_by(stack))
        except Exception as error:  # what ends a stack is not to fail for a list, but the list says so
            found = [("unknown server", "what it made", f"could not be read ({type(error).__name__})")]
        file.writelines(json.dumps(line) + "\n" for line in found)


def _made_by(stack: "Stack") -> Iterator[tuple[str, str, str]]:
    servers = {name: _server(stack.facts(name)) for name in [host.name for host in stack.lab.hosts]}
    # A target that did not come up reports no version; all servers of a lab are of one.
    known = next((server for server in servers.values() if server), "unknown server")
    for kind, sql in KINDS.items():
        for row in stack.rows(sql):
            yield servers.get(row["name"]) or known, f"{kind} {row['method']}", row["status"]


def _server(facts: dict[str, Any]) -> str:
    server = facts.get("server")
    if not server:
        return ""
    return f"{FLAVORS.get(server['flavor'], server['flavor'])} {'.'.join(server['version'].split('.')[:2])}"


def begin(config: pytest.Config) -> None:
    """Make the place, in the process that starts the others: these have it from their environment."""
    if PLACE not in os.environ:
        handle, os.environ[PLACE] = tempfile.mkstemp(prefix="ran-", dir=run_folder.parent())
        os.close(handle)
        config.stash[BEGAN] = Path(os.environ[PLACE])


def claim(items: list[pytest.Item]) -> None:
    """Let each test carry what its markers say of docs/reference/versions.md into its report.

    A test that another file has imported runs on that file's servers: its markers say nothing of them.
    """
    for item in items:
        if item.function.__module__ != item.module.__name__:
            continue
        for kind in item.iter_markers("runs"):
            item.user_properties.append((CLAIM, "|".join(kind.args)))


def _claims(reports: list[Any]) -> set[tuple[str, str]]:
    found = [value for report in reports for name, value in report.user_properties if name == CLAIM]
    return {(server, way) for server, _, way in (value.partition("|") for value in found)}


def unseen(claims: set[tuple[str, str]], ended: set[tuple[str, str, str]]) -> list[str]:
    """Return what passed tests say was run on a server and no dashboard has: the machine's own server is of another series.

    Args:
        claims: server and way, of passed tests.
        ended: server, what and end, as they were noted.
    """
    found = []
    for server, way in sorted(claim for claim in claims if claim[1] not in UNNOTED):
        what = SEEN_AS.get(way, f"rebuild by {way}")
        if not any(line[0] == server and line[1].startswith(what) and line[2] == "succeeded" for line in ended):
            found.append(f"docs/reference/versions.md says run, and it was not seen: {server}, {way}")
    return found


def print_runs(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the list, and what was skipped and why."""
    if not (place := config.stash.get(BEGAN, None)):
        return
    counts = Counter(tuple(json.loads(line)) for line in place.read_text(encoding="utf-8").splitlines())
    place.unlink()
    del os.environ[PLACE]
    skipped = Counter(
        (str(report.longrepr) if isinstance(report.longrepr, str) else report.longrepr[2]).removeprefix("Skipped: ")
        for report in reporter.stats.get("skipped", [])
    )
    if not (counts or skipped):
        return
    reporter.section("what ran on what")
    for server, what in sorted({key[:2] for key in counts}):
        ends = sorted((end, count) for (*key, end), count in counts.items() if (server, what) == tuple(key))
        reporter.write_line(f"{server}, {what}: {', '.join(f'{count} {end}' for end, count in ends)}")
    stats = reporter.stats
    passed = _claims([report for report in stats.get("passed", []) if report.when == "call"])
    for line in unseen(passed, {(key[0], key[1], key[2]) for key in counts}):
        reporter.write_line(line)
    for server, way in sorted(_claims(stats.get("skipped", [])) - passed):
        reporter.write_line(f"docs/reference/versions.md says run, and it was skipped: {server}, {way}")
    for reason, count in sorted(skipped.items()):
        reporter.write_line(f"not run, {count} test{'' if count == 1 else 's'}: {reason}")
