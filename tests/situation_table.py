"""Situations that people reported: what dbops does in each, and the test that shows it. ``docs/reference/situations.md``.

``@pytest.mark.situation(key, expected)`` marks a test of ``tests/situations``. ``key`` is one of ``SITUATIONS``. ``script/matrix``
writes the page; ``tests/test_situation_table.py`` fails where page and markers differ.
"""

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "situations"
DOCUMENT = ROOT / "docs" / "reference" / "situations.md"

#: Key, situation, and what a rebuild did before dbops handled it.
SITUATIONS = {
    "1": ("Partial-backup option in the source's option file", "succeeded; a database was missing"),
    "1b": ("`compress` in the tool's section of the option file", "failed late: the stream ended early"),
    "1c": ("`safe-slave-backup` in the tool's section", "failed late: a privilege was missing"),
    "2": ("`[client] host=` names another server", "succeeded; committed rows were missing"),
    "3": ("Source with replication filters", "succeeded; a database was missing"),
    "4": ("Tables with `DATA DIRECTORY`", "succeeded; the table could not be opened"),
    "5": ("Encrypted source, target without its keys", "succeeded; the tables could not be read"),
    "6": ("MEMORY tables", "succeeded; rows were missing without a warning"),
    "7": ("Enabled events on the copy", "succeeded; a row existed on the replica alone"),
    "8a": ("Replication over TLS", "succeeded; replication continued in clear text"),
    "8b": ("Replication account with `REQUIRE SSL`", "failed after the whole copy"),
    "9": ("Delay, filters and intervals of the target", "succeeded; all were lost"),
    "10": ("Target with several connections", "succeeded; one connection and its data were lost"),
    "11": ("Directories of the option file inside the data directory", "failed late, without a cause"),
    "13": ("Start-up file that prints", "failed after the target was stopped"),
    "14": ("csh or tcsh as login shell", "the probe failed without a usable cause"),
    "15": ("`sudo` that requires a terminal", "the plan invented two findings"),
    "16": ("Work directory on a `noexec` mount", "failed as if the network were at fault"),
    "17": ("Password outside ASCII", "access denied, or a crash of each probe"),
    "18": ("Accounts that log in by ed25519", "failed late, as if the password were wrong"),
    "19": ("Option group suffix", "refused: no server id"),
    "20": ("Source with `log_slave_updates` off", "refused"),
    "23": ("Names outside latin1", "the restore test of a good backup failed"),
    "F1": ("Encrypted source, target with another key", "succeeded; the tables could not be read"),
    "F2": ("Old outside file of a `DATA DIRECTORY` table", "succeeded; the table could not be opened"),
    "F3": ("An earlier guard still ends on the source", "the rebuild waited for its own second guard"),
    "F4": ("Two dashboards on the same hosts", "both rebuilds failed"),
    "F5": ("Host key or login refused for seconds", "failed; holds went while prepare ran"),
    "F6": ("Dashboard database set back in a rebuild", "reported that nothing was changed"),
    "F7": ("Audit entries deleted, head set back", "the verification crashed without a finding"),
    "G1": ("Redis away for more than 45 s", "failed: the source was given back"),
    "G2": ("`REQUIRE SSL` on the local admin account", "failed late"),
    "G3": ("Disk fills late in a clone", "failed without the cause"),
    "G4": ("10,000 tables", "log lines were lost; 85 s of verification and clean-up"),
    "G5": ("A tool that prints 50 MB", "all facts of the host were missing"),
    "G6": ("ssh killed on the target", "failed as if the network were at fault"),
    "G7": ("Addresses of two servers swapped", "a wrong server id was learned"),
    "inventory": ("An object is missing on the copy", "succeeded"),
    "openable": ("A table of the copy cannot be read", "succeeded"),
    "equal": ("Rows of the copy differ", "succeeded"),
    "errant": ("Transactions that the target alone holds", "succeeded, or the source was blamed"),
    "links": ("Replication links that come with the data", "succeeded; old transactions were replayed"),
    "run time": ("Settings of replication that were set at run time", "succeeded; all were lost"),
    "persisted": ("Settings of `SET PERSIST`", "succeeded; the target's were lost"),
    "clients": ("Clients that connect to a copy before it is verified", "MariaDB: they read old data"),
    "start": ("A start command that fails", "failed without the server's own words"),
    "chained": ("Target that follows an intermediate replica", "succeeded; it followed the primary"),
    "layout": ("Start-up settings that differ from the data", "failed late"),
    "clone": ("Clone of a MySQL that has none", "refused; the plugin was blamed, too"),
    "dump program": ("Dump program of the other product", "failed: an unknown option"),
    "position": ("MySQL without GTID", "refused"),
    "link": ("A schema that is a symbolic link", "succeeded; the schema's place was lost"),
    "galera": ("Servers of a Galera cluster", "members were replaced like replicas"),
    "group replication": (
        "Servers of Group Replication (InnoDB Cluster)",
        "members were replaced like replicas; under writes, a plan was refused",
    ),
}


@dataclass(frozen=True, slots=True)
class Mark:
    """What one marker says. ``test`` is its file."""

    key: str
    expected: str
    test: str


def marks(folder: Path = FOLDER) -> list[Mark]:
    """Return every marker of the folder's tests, in the order of their files.

    Raises:
        ValueError: one does not name a known situation and an expectation by two plain strings.
    """
    found = []
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.situation":
                words = [item.value for item in node.args if isinstance(item, ast.Constant)]
                if len(words) != 2 or words[0] not in SITUATIONS:
                    raise ValueError(f"{path}:{node.lineno}: a marker names a situation and what is expected: {words}")
                found.append(Mark(*words, test=path.name))
    return found


def document(found: list[Mark] | None = None) -> str:
    """Return the text of ``docs/reference/situations.md``."""
    found = marks() if found is None else found
    lines = [*HEAD, "| situation | expected | seen before | tests |", "|---|---|---|---|"]
    for key, (situation, before) in SITUATIONS.items():
        of_key = [mark for mark in found if mark.key == key]
        if of_key:
            expected = "; ".join(dict.fromkeys(mark.expected for mark in of_key))
            tests = ", ".join(f"`{name}`" for name in dict.fromkeys(mark.test for mark in of_key))
            lines.append(f"| {situation} | {expected} | {before} | {tests} |")
    return "\n".join([*lines, ""])


HEAD = [
    "# Situations",
    "",
    "<!-- script/matrix writes this file from the tests' markers; tests/test_situation_table.py holds it. -->",
    "",
    "Each situation was reported in public or provoked on purpose. Each is run on real servers by a test in `tests/situations`.",
    "",
]
