"""Check that a streamed copy is whole. Exit statuses are unreliable, so all of the evidence must agree.

Both unpackers return 0 on an empty stream and on one that is cut at a chunk boundary, and mbstream also on a file that it could not
create (measured with 10.11 and 11.8).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import Flavor
from dbops.engine.flavors.base import BackupInfo, Checkpoints
from dbops.engine.flavors.failures import CONSEQUENCES, DISK_FULL, known_failure
from dbops.engine.hosts.tool_output import KILLED_STATUSES, OTHER_DATADIR, first_of
from dbops.engine.phrases import phrase

#: ssh's own failure, whatever the result of the command at the other end
SSH_FAILED_STATUS = 255
OPERATION = phrase("Copying the data from the source")


@dataclass(frozen=True, slots=True)
class CopyEvidence:
    """The results of both ends. Files are text by name; ``None`` statuses were never written."""

    source_status: int | None
    transport_status: int | None
    unpack_status: int | None
    source_log: str
    transport_log: str
    unpack_log: str
    source_files: Mapping[str, str] = field(default_factory=dict)
    target_files: Mapping[str, str] = field(default_factory=dict)


def judge_copy(flavor: Flavor, evidence: CopyEvidence) -> tuple[BackupInfo, Checkpoints]:
    """Return the checkpoints of a whole copy.

    Raises:
        RemoteFailure: with the first real cause: a failure known from either log, else the missing piece of evidence.
    """
    problem = first_cause(evidence) or _missing(flavor, evidence)
    if problem:
        code, found = problem
        raise RemoteFailure(
            code,
            OPERATION,
            cause=found,
        )
    info = flavor.parse_info(first_of(flavor, "info", evidence.target_files) or "")
    return info, flavor.parse_checkpoints(first_of(flavor, "checkpoints", evidence.target_files) or "")


def _statuses(evidence: CopyEvidence) -> str:
    return phrase(
        "source backup {source}, transport {transport}, unpack {unpack}",
        source=evidence.source_status,
        transport=evidence.transport_status,
        unpack=evidence.unpack_status,
    )


def first_cause(evidence: CopyEvidence) -> tuple[str, str] | None:
    """Return the first real cause; the source's log counts only if the receiver works: a full disk there breaks the source's pipe."""
    failed = (evidence.source_status, evidence.transport_status, evidence.unpack_status) != (0, 0, 0)
    if not failed:
        return None
    if known_cause := _killed(evidence) or _lost_status(evidence):
        return known_cause
    consequence = None
    for log in (evidence.unpack_log, evidence.source_log, evidence.transport_log):
        known = known_failure(log.splitlines())
        if known is None:
            continue
        if known.code in CONSEQUENCES:
            consequence = consequence or known
            continue
        return known.code, phrase("{sentence} ({details})", sentence=known.sentence, details=_statuses(evidence))
    if lost := _lost_link(evidence):
        return lost
    if consequence:
        return consequence.code, phrase(
            "{sentence} ({details})", sentence=consequence.sentence, details=_statuses(evidence)
        )
    tail = "\n".join((evidence.source_log or evidence.transport_log or evidence.unpack_log).splitlines()[-3:])
    return (
        "stream.failed",
        phrase("{statuses}. Last lines: {tail}", statuses=_statuses(evidence), tail=tail),
    )


def _lost_status(evidence: CopyEvidence) -> tuple[str, str] | None:
    """Return the cause if the tool completed and all was unpacked, but no exit status of the tool was written.

    The process that waited for the tool was killed: ssh then ends as after a lost link, but the link is not the cause.
    """
    if evidence.source_status is not None or evidence.unpack_status != 0 or not _says_completed(evidence):
        return None
    return (
        "stream.unverified",
        phrase(
            "the backup tool on the source said that it completed, but its exit status is lost ({statuses})",
            statuses=_statuses(evidence),
        ),
    )


def _says_completed(evidence: CopyEvidence) -> bool:
    lines = [line for line in evidence.source_log.splitlines() if line.strip()]
    return bool(lines) and lines[-1].rstrip().endswith("completed OK!")


def _lost_link(evidence: CopyEvidence) -> tuple[str, str] | None:
    """Return the cause if the connection failed: it ends ssh, often without a known message, and the unpacker's input."""
    unpack = known_failure(evidence.unpack_log.splitlines())
    input_ended = evidence.unpack_status == 0 or (unpack is not None and unpack.code == "stream.truncated")
    if evidence.transport_status != SSH_FAILED_STATUS or not input_ended:
        return None
    said = evidence.transport_log.strip().splitlines()
    return (
        "transport.lost",
        phrase(
            "SSH between target and source broke off, saying: {said} ({statuses})",
            said=said[-1] if said else phrase("(nothing)"),
            statuses=_statuses(evidence),
        ),
    )


def receiver_has_failed(evidence: CopyEvidence) -> bool:
    """Return whether the unpacking tool reports its failure, or was killed."""
    if evidence.unpack_status in KILLED_STATUSES:
        return True
    known = known_failure(evidence.unpack_log.splitlines())
    return known is not None and known.code not in CONSEQUENCES


def _killed(evidence: CopyEvidence) -> tuple[str, str] | None:
    """Return the cause if a stage ended by a signal: it reports nothing itself, and the other end only notices the broken pipe.

    The source comes last: its guard kills a tool whose connection is gone.
    """
    for what, status in (
        ("unpacking tool on the target", evidence.unpack_status),
        ("ssh program on the target, or what it ran on the source,", _status_of_ssh(evidence)),
        ("backup tool on the source", evidence.source_status),
    ):
        if status in KILLED_STATUSES:
            return (
                "stream.killed",
                phrase(
                    "the {what} was ended by signal {signal} ({statuses})",
                    what=what,
                    signal=KILLED_STATUSES[status],
                    statuses=_statuses(evidence),
                ),
            )
    return None


def _status_of_ssh(evidence: CopyEvidence) -> int | None:
    """Return the status, with the signal that ssh names itself: then it ends as after a lost link."""
    named = re.search(r"^Killed by signal (\d+)\.", evidence.transport_log, re.MULTILINE)
    return 128 + int(named[1]) if named else evidence.transport_status


def _missing(flavor: Flavor, evidence: CopyEvidence) -> tuple[str, str] | None:
    """Return the first missing piece of evidence for a whole copy; all statuses are already 0."""
    if not _says_completed(evidence):
        lines = evidence.source_log.rstrip().splitlines()
        return (
            "stream.not_completed",
            phrase(
                "the backup tool's last line is not 'completed OK!' but: {line}",
                line=lines[-1] if lines else phrase("(nothing)"),
            ),
        )
    if OTHER_DATADIR in evidence.source_log:
        return "backup.other_datadir", phrase("the backup tool read another data directory than the server's own")
    if evidence.unpack_log.strip():
        known = known_failure(evidence.unpack_log.splitlines())
        if known is not None and known.code == DISK_FULL:
            return known.code, phrase("{sentence} ({details})", sentence=known.sentence, details=_statuses(evidence))
        return "stream.unpack_complained", phrase(
            "the unpacking tool wrote: {said}", said=evidence.unpack_log.strip()[-500:]
        )
    for kind in ("last", "info", "checkpoints", "binlog"):
        if not first_of(flavor, kind, evidence.target_files):
            names = " or ".join(flavor.metadata_files[kind])
            return "stream.truncated", phrase("{names} did not arrive: the stream ended early", names=names)
    for kind in ("info", "checkpoints"):
        sent, arrived = first_of(flavor, kind, evidence.source_files), first_of(flavor, kind, evidence.target_files)
        if sent is None:
            return "stream.unverified", phrase(
                "the source kept no {file} to compare with", file=flavor.metadata_files[kind][0]
            )
        if not _agree(flavor, kind, sent, arrived or ""):
            return "stream.other_run", phrase(
                "{file} differs between source and target", file=flavor.metadata_files[kind][0]
            )
    return None


def _agree(flavor: Flavor, kind: str, sent: str, arrived: str) -> bool:
    if kind == "info":
        return flavor.same_run(flavor.parse_info(sent), flavor.parse_info(arrived))
    return flavor.parse_checkpoints(sent) == flavor.parse_checkpoints(arrived)
