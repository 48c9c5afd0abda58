"""Check that a finished backup arrived whole: the checksum matches the published file, and everything was unpacked."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dbops.engine.backups.archives import Archive
from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import Flavor
from dbops.engine.flavors.base import Checkpoints
from dbops.engine.flavors.failures import known_failure
from dbops.engine.hosts.tool_output import first_of
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.copy_check import CopyEvidence, first_cause

OPERATION = phrase("Checking that the backup arrived whole")
#: The messages of zstd 1.5, mbstream 10.11 and xbstream 8.0 about damaged input.
DAMAGED = re.compile(r"invalid checksum|wrong chunk magic|corrupt|decoding error|checksum error", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FetchEvidence:
    """The results of both ends. ``statuses``: those of every stage on the target; ``sum``: the checksum computed there.

    For a dump, the loading client takes the place of the unpacking tool.
    """

    copy: CopyEvidence
    statuses: Mapping[str, int | None]
    decompress_log: str
    sum: str


def judge_load(archive: Archive, evidence: FetchEvidence) -> None:
    """Pass if a dump was loaded whole: it was found complete when it was published, so its checksum is sufficient.

    Raises:
        RemoteFailure: with the first real cause, as ``judge_fetch``; or the server refused a statement (``dump.load``), or did not shut
            down cleanly (``dump.server``).
    """
    problem = _broken(archive, evidence) or _refused(evidence) or first_cause(evidence.copy)
    if not problem and evidence.statuses.get("server") != 0:
        ended = phrase(
            "the server that loaded the dump ended with status {status}", status=evidence.statuses.get("server")
        )
        problem = "dump.server", ended
    if problem:
        code, found = problem
        raise RemoteFailure(code, phrase("Checking that the dump was loaded whole"), cause=found)


def _refused(evidence: FetchEvidence) -> tuple[str, str] | None:
    said = next((line for line in evidence.copy.unpack_log.splitlines() if line.startswith("ERROR ")), "")
    if not said:
        return None
    return "dump.load", phrase("the server refused a statement of the dump: {said}", said=said[:500])


def judge_fetch(flavor: Flavor, archive: Archive, evidence: FetchEvidence) -> Checkpoints:
    """Return the checkpoints of a backup that is whole.

    Raises:
        RemoteFailure: with the first real cause: a failure known from a log, a file that differs from the published one, or the missing
            piece of evidence.
    """
    problem = _broken(archive, evidence) or first_cause(evidence.copy) or _incomplete(flavor, evidence)
    if problem:
        code, found = problem
        raise RemoteFailure(code, OPERATION, cause=found)
    return flavor.parse_checkpoints(first_of(flavor, "checkpoints", evidence.copy.target_files) or "")


def _broken(archive: Archive, evidence: FetchEvidence) -> tuple[str, str] | None:
    """Return the cause if the received file differs from the published one: every other message of the tools is a consequence.

    The unpacking tool meets a damaged chunk first and ends the pipe, before the whole file was added up.
    """
    disk = known_failure(evidence.copy.unpack_log.splitlines())
    if disk and disk.code == "stream.disk_full":
        return disk.code, disk.sentence
    for tool, log in (("zstd", evidence.decompress_log), ("the unpacking tool", evidence.copy.unpack_log)):
        said = next((line for line in log.splitlines() if DAMAGED.search(line)), "")
        if said:
            return (
                "archive.damaged",
                phrase(
                    "of the file of backup run {run} {tool} said: {said}", run=archive.run, tool=tool, said=said[-300:]
                ),
            )
    if evidence.copy.transport_status != 0 or evidence.statuses.get("see") != 0:
        return None
    if evidence.sum != archive.sha256:
        return (
            "archive.damaged",
            phrase(
                "the file of backup run {run} arrived with checksum {sum}, published was {published}",
                run=archive.run,
                sum=evidence.sum or phrase("(none)"),
                published=archive.sha256,
            ),
        )
    if evidence.statuses.get("decompress") != 0:
        said = evidence.decompress_log.strip()[-300:] or phrase("(nothing)")
        return "archive.decompress", phrase(
            "zstd ended with status {status}: {said}", status=evidence.statuses.get("decompress"), said=said
        )
    return None


def _incomplete(flavor: Flavor, evidence: FetchEvidence) -> tuple[str, str] | None:
    """Return the first missing piece of evidence for a whole copy; every status is already 0."""
    if said := evidence.copy.unpack_log.strip():
        return "stream.unpack_complained", phrase("the unpacking tool wrote: {said}", said=said[-500:])
    for kind in ("last", "info", "checkpoints", "binlog"):
        if not first_of(flavor, kind, evidence.copy.target_files):
            names = " or ".join(flavor.metadata_files[kind])
            return "stream.truncated", phrase("{names} did not arrive: the backup ended early", names=names)
    return None
