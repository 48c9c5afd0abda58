"""Judge the end of a restore test: step durations, failures and row counts."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from dbops.engine.catalogue.entries import NOT_WRITTEN
from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.hosts.jobs import REFUSED_STATUS, pairs, reason_of
from dbops.engine.phrases import phrase
from dbops.engine.ports import JobState, JobStatus

#: The steps in order, with their titles.
STEPS = {
    "check": phrase("Check file, space and memory"),
    "unpack": phrase("Decompress and unpack"),
    "prepare": "Prepare",
    "start": phrase("Start scratch server"),
    "tables": phrase("Check all tables"),
    "rows": phrase("Count rows"),
    "stop": phrase("Stop scratch server"),
    "remove": phrase("Remove files"),
}
#: First words of the failures of ``run_restore_test.sh``; each is an error code.
FAILURES = (
    *("space", "killed", "transport", "damaged", "unpack", "outside", "prepare", "start", "tables", "not_removed"),
)
#: First words of refusals that are not the backup's fault, each with its own code, by who has to act.
OPERATORS, HOSTS = ("tool", "memory"), ("space", "transport")
#: A table is reported if it lost more than this share of at least so many rows since the last restore test.
LOST_PART, LEAST_ROWS = 0.5, 1000
#: Maximum number of stored tables, the largest, and of missing tables named in a message.
KEPT_TABLES, NAMED = 1000, 5

Table = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ExpectedContents:
    """The expected content of a backup.

    ``older`` are tables of the source older than the backup, ``now`` all of its tables; ``last`` are the row counts
    of the last successful restore test. Unknown is empty.
    """

    older: frozenset[Table] = frozenset()
    now: frozenset[Table] = frozenset()
    last: Mapping[Table, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RestoreTestResult:
    """A restored and checked backup.

    ``counts`` are rows by table; ``warnings`` are differences from the expected content.
    """

    checked: int
    rows: int
    counts: Mapping[Table, int]
    warnings: tuple[str, ...] = ()

    def largest(self) -> list[list[Any]]:
        """Return the stored tables: schema, name and rows, the largest first."""
        ordered = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return [[schema, name, rows] for (schema, name), rows in ordered[:KEPT_TABLES]]


def read_steps(text: str, known: Container[str] = tuple(STEPS)) -> list[dict[str, Any]]:
    """Return the steps of ``log.steps`` so far: name, state (``running``, ``done``, ``failed``), seconds and bytes.

    Unknown seconds and bytes are ``None``. ``known`` are the steps of the job; other lines are ignored.
    """
    steps: dict[str, dict[str, Any]] = {}
    begun: dict[str, float] = {}
    for words in (line.split() for line in text.splitlines()):
        if len(words) < 3 or words[1] not in known:
            continue
        word, name, at = words[0], words[1], _number(words[2])
        if word == "begin":
            begun[name] = at
            steps[name] = {"name": name, "state": "running", "seconds": None, "bytes": None}
        elif name in steps:
            size = int(words[3]) if len(words) > 3 and words[3].isdigit() else None
            state = "done" if word == "end" else "failed"
            steps[name] |= {"state": state, "seconds": max(0.0, round(at - begun[name], 3)), "bytes": size}
    return list(steps.values())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def judge_restore_test(
    source: str, path: str, state: JobState, counts_text: str, expected: ExpectedContents
) -> RestoreTestResult:
    """Return the result of a finished restore test.

    Args:
        source: name of the instance.
        path: of the backup.
        state: of the job, ended or vanished.
        counts_text: its ``log.counts``.
        expected: the expected content.

    Raises:
        Refused: the host does not fit (``restore_test.tool``, ``restore_test.memory``), or the file is not the backup's
            (``restore_test.refused``); nothing was written.
        RemoteFailure: the backup or the host failed.
    """
    operation = phrase("Testing the restore of {path} of {source}", path=path, source=source)
    last = reason_of(state)
    if state.status is JobStatus.VANISHED:
        vanished = phrase("the job ended without an exit status (killed, or the host restarted)")
        raise RemoteFailure("restore_test.vanished", operation, cause=vanished)
    if state.exit_status == REFUSED_STATUS and last.startswith("REFUSED: "):
        _refuse(operation, last.removeprefix("REFUSED: "))
    if state.exit_status != 0:
        _fail(operation, last.removeprefix("FAILED: "), state.exit_status)
    facts = pairs(state.tails.get("facts", ""))
    if not facts.get("checked", "").isdigit():
        raise RemoteFailure("restore_test.failed", operation, cause=phrase("the job succeeded but wrote no results"))
    counts = read_counts(counts_text)
    missing = sorted(expected.older - counts.keys())
    # A renamed table keeps its age (MySQL 8.0 and newer) and has its old name in the backup.
    if len(missing) > len(counts.keys() - expected.now):
        named = ", ".join(f"{schema}.{name}" for schema, name in missing[:NAMED])
        found = phrase(
            "{count} tables older than the backup are missing in it: {named}", count=len(missing), named=named
        )
        raise RemoteFailure("restore_test.tables", operation, cause=found)
    renamed = [
        f"{schema}.{name} is older than the backup but missing in it; it may have been renamed."
        for schema, name in missing
    ]
    warnings = (*renamed, *_unlike(counts, expected.last))
    return RestoreTestResult(int(facts["checked"]), int(facts["rows"]), counts, warnings)


def _refuse(operation: str, said: str) -> NoReturn:
    kind, _, found = said.partition(" ")
    if kind in HOSTS:
        raise RemoteFailure(f"restore_test.{kind}", operation, cause=found, state=NOT_WRITTEN)
    code, found = (kind, found) if kind in OPERATORS else ("refused", said)
    raise Refused(f"restore_test.{code}", operation, cause=found)


def _fail(operation: str, said: str, exit_status: int | None) -> None:
    kind, _, found = said.partition(" ")
    if kind in FAILURES:
        raise RemoteFailure(f"restore_test.{kind}", operation, cause=found)
    found = said or phrase("exit status {status} without output", status=exit_status)
    raise RemoteFailure("restore_test.failed", operation, cause=found)


def read_counts(text: str) -> dict[Table, int]:
    """Return rows by schema and table from the client's output; other lines are ignored."""
    rows = (line.split("\t") for line in text.splitlines())
    return {(_plain(row[0]), _plain(row[1])): int(row[2]) for row in rows if len(row) == 3 and row[2].isdigit()}


def _plain(text: str) -> str:
    """Return a value without the client's escapes (``--batch``)."""
    return text.replace("\\t", "\t").replace("\\n", "\n").replace("\\\\", "\\")


def _unlike(counts: Mapping[Table, int], last: Mapping[Table, int]) -> Iterable[str]:
    for (schema, name), before in sorted(last.items()):
        now = counts.get((schema, name))
        if now is None:
            yield f"{schema}.{name} is missing; the last restore test counted {before} rows"
        elif before >= LEAST_ROWS and now < before * LOST_PART:
            yield f"{schema}.{name} has {now} rows; the last restore test counted {before}"
