"""Judge a MySQL clone: which servers can clone which, its progress, and whether it is whole.

The rules are those of the manual, "Cloning Remote Data"; the progress of a clone was observed on MySQL 9.7.4.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors.base import Version
from dbops.engine.flavors.failures import DISK_FULL, known_failure
from dbops.engine.flavors.sql_text import sql_text
from dbops.engine.flavors.versions import dotted, series
from dbops.engine.phrases import phrase

#: The plugin came with 8.0.17; 8.0.18 is the first server that generates a password, so that no other party knows it.
FIRST_VERSION = (8, 0, 18)
#: From this release, releases of 8.0 clone each other; before, only equal ones do.
FIRST_OF_MIXED_8_0 = (8, 0, 37)
#: Before this release a clone blocks every DDL statement on the donor until it ends.
FIRST_WITHOUT_DDL_LOCK = (8, 0, 27)
#: The ``max_allowed_packet`` that a donor requires (error 3957).
PACKET_BYTES = 2 * 1024**2
PLUGIN = "clone"
LIBRARY = "mysql_clone.so"
#: After this time an account that was never dropped can no longer log in.
ACCOUNT_DAYS = 2

OPERATION = phrase("Checking that the clone is whole")
BROKEN_OFF = phrase("Check that the source's server is running, and its error log. Then rebuild again.")
#: The cause of a failed clone by error number.
ADVICE = {
    **dict.fromkeys(("1158", "1159", "1160", "1161", "2013"), BROKEN_OFF),
    "3862": phrase("Check the source's error in the message, its server and its error log. Then rebuild again."),
    "3869": phrase("The target rejects this donor address. Correct the source's address in the inventory."),
    "3957": phrase("Raise max_allowed_packet on both servers to 2 MiB or more."),
    "1317": phrase("The statement was killed. Rebuild again."),
}
_SERVER_ERROR = re.compile(r"ERROR (\d+) \([0-9A-Z]{5}\)")


def version_problem(donor: Version, recipient: Version) -> str:
    """Return why ``recipient`` cannot clone ``donor``, ``""`` if it can.

    Both must be of one series, and within 8.0 of equal releases if one is older than 8.0.37. The manual allows an older recipient within a
    series; dbops refuses it, as an older server may not open the files of a newer one.
    """
    both = f"MySQL {dotted(donor)} -> {dotted(recipient)}"  # names and numbers: the same in every language
    if min(donor, recipient) < FIRST_VERSION:
        return phrase("{both}: cloning begins with MySQL {first}.", both=both, first=dotted(FIRST_VERSION))
    if series(donor) != series(recipient):
        return phrase("{both}: only servers of one series clone each other.", both=both)
    if donor != recipient and min(donor, recipient) < FIRST_OF_MIXED_8_0:
        return phrase(
            "{both}: before {first} only equal releases clone each other.", both=both, first=dotted(FIRST_OF_MIXED_8_0)
        )
    if recipient < donor:
        return phrase("{both}: the target's server is older than the source's.", both=both)
    return ""


def account_name(run_id: str) -> str:
    """Return the name of a run's account on the donor: at most 32 characters that need no quoting."""
    return f"dbops-{re.sub(r'[^A-Za-z0-9]', '', run_id)[:26]}"


def account_sql(run_id: str) -> str:
    """Return the run's account as statements name it. A target with several addresses may connect from any of them."""
    return f"{sql_text(account_name(run_id))}@'%'"


def clone_statements(*, run_id: str, password: str, host: str, port: int, tls: bool) -> str:
    """Return the statements for the target's server, with the password: for a file that only its owner can read."""
    ssl = " REQUIRE SSL" if tls else ""
    return (
        "SET SESSION sql_mode = '';\n"  # the meaning of a backslash must not depend on an option file
        f"SET GLOBAL clone_valid_donor_list = {sql_text(f'{host}:{port}')};\n"
        f"CLONE INSTANCE FROM {sql_text(account_name(run_id))}@{sql_text(host)}:{port} IDENTIFIED BY {sql_text(password)}{ssl};\n"
    )


@dataclass(frozen=True, slots=True)
class Stage:
    """A row of ``performance_schema.clone_progress``: sizes in bytes; a stage that has not begun has an estimate of 0."""

    name: str
    state: str
    estimate_bytes: int
    copied_bytes: int


def read_stages(text: str) -> list[Stage]:
    """Return the stages in lines of four columns. Other lines are skipped: the file may be incomplete."""
    stages = []
    for line in text.splitlines():
        columns = line.split("\t")
        if len(columns) == 4 and columns[2].isdigit() and columns[3].isdigit():
            stages.append(Stage(columns[0], columns[1], int(columns[2]), int(columns[3])))
    return stages


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a clone: received bytes, known total bytes, percent, and the current stage."""

    copied_bytes: int
    total_bytes: int
    percent: float
    stage: str


def progress_of(stages: Iterable[Stage], *, before_percent: float) -> Progress | None:
    """Return the progress, ``None`` while it is unknown.

    Pages and redo are estimated only when they begin, so the ratio of done to known bytes drops there (measured). The percent never falls
    below ``before_percent``, and is at most 99.9 until the copy is verified.
    """
    stages = list(stages)
    running = next((stage.name for stage in stages if stage.state == "In Progress"), "")
    if not stages:
        return None
    copied = sum(stage.copied_bytes for stage in stages)
    total = sum(max(stage.estimate_bytes, stage.copied_bytes) for stage in stages)
    percent = min(99.9, 100 * copied / total) if total else 0.0
    return Progress(copied, total, max(before_percent, percent), running.lower())


@dataclass(frozen=True, slots=True)
class CloneEvidence:
    """The results of a clone.

    ``statuses``: those of the job's stages; ``outcome``: the server's own report after its restart; ``said``: the client's last lines;
    ``last``: the job's last line; ``server_log``: the end of the error log of the server that takes the clone.
    """

    statuses: dict[str, int]
    outcome: dict[str, str]
    said: str
    last: str
    server_log: str = ""


def judge_clone(evidence: CloneEvidence) -> str:
    """Return the GTID set of the copy.

    Error 3707 ends every clone of a server without a supervisor and is no failure. So the server's report after its restart counts, never
    the end of the statement.


    Raises:
        RemoteFailure: the statement failed (``clone.failed``), the server did not complete the copy (``clone.incomplete``), or it did not
            shut down cleanly afterwards (``clone.server``); or, as the cause of one of these, the disk is full (``stream.disk_full``).
    """
    try:
        return _judge(evidence)
    except RemoteFailure as failure:
        said = [evidence.said, evidence.outcome.get("message", ""), evidence.last, evidence.server_log]
        found = next((line for line in "\n".join(said).splitlines() if _is_disk_full(line)), "")
        if not found:
            raise
        raise RemoteFailure("stream.disk_full", failure.operation, cause=found.strip()[-500:]) from None


def _is_disk_full(line: str) -> bool:
    known = known_failure([line])
    return known is not None and known.code == DISK_FULL


def _judge(evidence: CloneEvidence) -> str:
    found = _SERVER_ERROR.search(evidence.said)
    if found and found[1] != "3707":
        advice = ADVICE.get(found[1], "")
        said = _last_line(evidence.said)
        raise RemoteFailure("clone.failed", phrase("Cloning the source"), cause=said, next_step=advice)
    if evidence.statuses.get("clone") != 0:
        found_text = evidence.last or _last_line(evidence.said) or phrase("it ended without a word")
        raise RemoteFailure(
            "clone.failed", phrase("Cloning the source"), cause=found_text, next_step=phrase("Rebuild again.")
        )
    outcome = evidence.outcome
    if outcome.get("state") != "Completed" or outcome.get("error") != "0" or not outcome.get("gtid"):
        result = (
            ", ".join(f"{key} {value}" for key, value in outcome.items() if value) or evidence.last or phrase("nothing")
        )
        raise RemoteFailure(
            "clone.incomplete",
            OPERATION,
            cause=phrase("after its restart the server reports: {result}", result=result),
        )
    if evidence.statuses.get("server") != 0:
        raise RemoteFailure(
            "clone.server",
            OPERATION,
            cause=evidence.last
            or phrase(
                "the server that took the clone ended with status {status}", status=evidence.statuses.get("server")
            ),
        )
    return outcome["gtid"]


def _last_line(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""
