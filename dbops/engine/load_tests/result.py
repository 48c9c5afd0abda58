"""Judge the end of a load test's job."""

from typing import NoReturn

from dbops.engine.catalogue.entries import NOT_WRITTEN
from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.hosts.jobs import REFUSED_STATUS, pairs, reason_of
from dbops.engine.phrases import phrase
from dbops.engine.ports import JobState, JobStatus

#: The steps in order, with their titles. A test has "unpack" and "prepare", or "initialise".
STEPS = {
    "check": phrase("Check programs, space and memory"),
    "unpack": phrase("Decompress and unpack"),
    "prepare": "Prepare",
    "initialise": phrase("Create empty server"),
    "start": phrase("Start scratch server"),
    "fill": phrase("Fill tables"),
    "rounds": phrase("Run rounds"),
    "stop": phrase("Stop scratch server"),
    "remove": phrase("Remove files"),
}
#: First words of the failures of ``run_load_test.sh`` with a code of their own.
FAILURES = (
    "space",
    "out_of_memory",
    "killed",
    "time",
    "unwatched",
    "start",
    "initialise",
    "fill",
    "table_fails",
    "copies",
    "server",
    "transport",
    "connection",
    "not_removed",
)
#: Those that say that the backup cannot be restored.
OF_BACKUP = ("damaged", "unpack", "outside", "prepare")
#: First words of refusals with a code of their own, by who has to act.
OPERATORS, HOSTS = ("tool", "memory", "version"), ("space", "transport", "connection", "copies")
#: The generator failed; its result says how.
ROUND = "round"


def failed_round(state: JobState) -> int | None:
    """Return the number of the round whose generator failed; ``None`` if the job did not end so."""
    kind, _, number = reason_of(state).removeprefix("FAILED: ").partition(" ")
    is_it = state.status is JobStatus.ENDED and kind == ROUND and number.isdecimal()
    return int(number) if is_it else None


def judge_end(operation: str, state: JobState) -> dict[str, str]:
    """Return the facts of a job that ended well.

    Args:
        operation: for errors.
        state: of the job, ended or vanished.

    Raises:
        Refused: the host does not fit; nothing was written.
        RemoteFailure: the host, the server, the generator or the backup failed.
    """
    last = reason_of(state)
    if state.status is JobStatus.VANISHED:
        found = phrase("the job ended without an exit status (killed, or the host restarted)")
        raise RemoteFailure("load_test.vanished", operation, cause=found)
    if state.exit_status == REFUSED_STATUS and last.startswith("REFUSED: "):
        _refuse(operation, last.removeprefix("REFUSED: "))
    if state.exit_status != 0:
        _fail(operation, last.removeprefix("FAILED: "), state.exit_status)
    return pairs(state.tails.get("facts", ""))


def _refuse(operation: str, said: str) -> NoReturn:
    kind, _, found = said.partition(" ")
    if kind in HOSTS:
        raise RemoteFailure(f"load_test.{kind}", operation, cause=found, state=NOT_WRITTEN)
    code, found = (kind, found) if kind in OPERATORS else ("not_as_planned", said)
    raise Refused(f"load_test.{code}", operation, cause=found)


def _fail(operation: str, said: str, exit_status: int | None) -> NoReturn:
    kind, _, found = said.partition(" ")
    if kind in OF_BACKUP:
        raise RemoteFailure("load_test.backup_unusable", operation, cause=found)
    if kind in FAILURES:
        raise RemoteFailure(f"load_test.{kind}", operation, cause=found)
    raise RemoteFailure(
        "load_test.failed",
        operation,
        cause=said or phrase("exit status {status} without output", status=exit_status),
    )
