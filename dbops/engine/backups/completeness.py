"""Check that a backup file is complete before it gets its final name. Exit statuses alone are not enough."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dbops.engine.backups.plan import BackupPlan, metadata_file_names
from dbops.engine.catalogue import CATALOGUE
from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.base import Coordinates
from dbops.engine.flavors.binlog_origin import foreign_position
from dbops.engine.flavors.dumps import dump_position
from dbops.engine.flavors.failures import CONSEQUENCES, KnownFailure, known_failure
from dbops.engine.flavors.gtid import without_space
from dbops.engine.flavors.write_lock import write_lock_seconds
from dbops.engine.hosts.jobs import REFUSED_STATUS, pairs, reason_of
from dbops.engine.hosts.tool_output import KILLED_STATUSES, OTHER_DATADIR, decode_files, first_of
from dbops.engine.phrases import phrase
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.states import BackupMethod

STAGES = {
    BackupMethod.DUMP: ("tool", "see", "compress", "write", "sum"),
    BackupMethod.PHYSICAL: ("tool", "compress", "write", "sum"),
}
#: The entry of a known failure speaks of a rebuild; these are of a backup.
NOTHING_KEPT = CATALOGUE["backup.failed"].state

#: A dump runs as the dashboard's account, not as the backup account.
OF_A_DUMP = {"backup.privilege": "backup.dump_privilege", "backup.access_denied": "backup.dump_login"}

_BINLOG_POS = re.compile(r"filename '([^']*)', position '?(\d+)'?(?:,? GTID of the last change '([^']*)')?", re.DOTALL)
#: Normal output of a dump program. Anything else on its standard error fails the backup.
_HARMLESS = re.compile(r"warning|deprecated|^--\s|^\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class VerifiedBackup:
    """A complete file under its partial name.

    ``identity`` is device:inode, ``mount`` the mount point of its file system.
    """

    bytes: int
    sha256: str
    identity: str
    tool: str
    position: Coordinates
    exit_statuses: Mapping[str, int]
    warnings: tuple[str, ...] = field(default=())
    mount: str = ""
    #: how long writes on the server waited for a physical backup; ``None`` if its log does not show it
    write_lock_seconds: float | None = None


def judge_backup(plan: BackupPlan, state: JobState, files_text: str) -> VerifiedBackup:
    """Return the verified backup of a finished job, if all evidence shows that its file is complete.

    Args:
        plan: of the run.
        state: of the job, ended or vanished.
        files_text: the job's ``log.files``.

    Raises:
        Refused: the host does not match the plan; nothing was written (``backup.refused``).
        RemoteFailure: the first real cause.
    """
    _must_have_worked(plan, state)
    files = decode_files(files_text)
    facts = pairs(files.get("facts", ""))
    log = files.get("log", "")
    _stages_must_have_worked(plan, state, log)
    _must_be_of_server(plan, files)
    problem = _dump_problem(files, log) if plan.method is BackupMethod.DUMP else _physical_problem(plan, files, log)
    if not problem and not (facts.get("bytes", "").isdigit() and int(facts["bytes"]) > 0):
        problem = phrase("the file is empty")
    if not problem and not re.fullmatch(r"[0-9a-f]{64}", facts.get("sha256", "")):
        problem = phrase("the checksum is missing")
    if problem:
        raise _failure("backup.incomplete", phrase("all stages exited with status 0, but {problem}", problem=problem))
    return VerifiedBackup(
        bytes=int(facts["bytes"]),
        sha256=facts["sha256"],
        identity=facts.get("identity", ""),
        tool=_tool(facts.get("program", ""), facts.get("tool", "")),
        position=position_of(plan, files),
        exit_statuses=dict(state.stages),
        warnings=tuple(line for line in log.splitlines() if line.strip())[:20]
        if plan.method is BackupMethod.DUMP
        else (),
        mount=facts.get("mount", ""),
        write_lock_seconds=_write_lock_seconds(plan, files),
    )


def _tool(program: str, version: str) -> str:
    """Return path and version of the tool. What it prints begins with its path or its name, which must not appear twice."""
    first, _, rest = version.partition(" ")
    return f"{program} {rest.lstrip() if first in (program, program.rpartition('/')[2]) else version}".strip()


def _write_lock_seconds(plan: BackupPlan, files: Mapping[str, str]) -> float | None:
    if plan.method is BackupMethod.DUMP:
        return None
    flavor = flavor_for(plan.version, plan.flavor)
    return write_lock_seconds(flavor, files.get("log", "").splitlines(), first_of(flavor, "info", files) or "")


def position_of(plan: BackupPlan, files: Mapping[str, str]) -> Coordinates:
    """Return the server's binary log position of the backup, as its tool reports it; empty if it has none."""
    if plan.method is BackupMethod.DUMP:
        return dump_position(files.get("position", ""))
    flavor = flavor_for(plan.version, plan.flavor)
    info = flavor.parse_info(first_of(flavor, "info", files) or "")
    found = _BINLOG_POS.search(info.binlog_pos)
    if not found:
        return Coordinates()
    return Coordinates(found[1], int(found[2]), without_space(found[3] or ""))


def _must_be_of_server(plan: BackupPlan, files: Mapping[str, str]) -> None:
    """Raise ``backup.other_server`` if the tool's position is not of the server's own binary logs."""
    rows = [line.split("\t") for line in files.get("binlogs", "").splitlines()]
    logs = {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}
    flavor = flavor_for(plan.version, plan.flavor)
    if found := foreign_position(flavor, position_of(plan, files), logs, gtid_there=None):
        raise RemoteFailure(
            "backup.other_server",
            phrase("Running the backup"),
            cause=phrase(
                "{instance} answers at {socket}, but {found}", instance=plan.instance, socket=plan.socket, found=found
            ),
            state=NOTHING_KEPT,
        )


def _failure(code: str, found: str) -> RemoteFailure:
    return RemoteFailure(code, phrase("Running the backup"), cause=found)


def _known_cause(plan: BackupPlan, known: KnownFailure, said: str) -> RemoteFailure:
    if plan.method is BackupMethod.DUMP:
        known = KnownFailure(OF_A_DUMP.get(known.code, known.code))
    found = phrase("{sentence} ({details})", sentence=known.sentence, details=said)
    return RemoteFailure(known.code, phrase("Running the backup"), cause=found, state=NOTHING_KEPT)


def _must_have_worked(plan: BackupPlan, state: JobState) -> None:
    """Raise the failure of a job that ended before its pipe did."""
    last = reason_of(state)
    if state.status is JobStatus.VANISHED:
        found = phrase("the job ended without an exit status (killed, or the host restarted)")
        raise _failure("backup.vanished", found)
    if state.exit_status == REFUSED_STATUS and last.startswith("REFUSED: "):
        raise Refused(
            "backup.refused",
            phrase("Checking {instance} before the backup", instance=plan.instance),
            cause=last.removeprefix("REFUSED: "),
        )
    if state.exit_status != 0 and (last.startswith("FAILED: ") or not state.stages):
        killed = KILLED_STATUSES.get(state.exit_status or 0)
        if killed and not last.startswith("FAILED: "):
            raise _failure("backup.killed", phrase("signal {killed} killed the job", killed=killed))
        said = phrase("exit status {status} without output", status=state.exit_status)
        raise _failure("backup.failed", last.removeprefix("FAILED: ") or said)


def _stages_must_have_worked(plan: BackupPlan, state: JobState, log: str) -> None:
    statuses = {name: state.stages.get(name) for name in STAGES[plan.method]}
    if all(status == 0 for status in statuses.values()) and state.exit_status == 0:
        return
    said = ", ".join(f"{name} {status}" for name, status in statuses.items())
    for name in ("write", "sum", "compress", "tool"):  # a broken pipe is caused by a later stage
        if (signal := KILLED_STATUSES.get(statuses[name] or 0)) is not None:
            raise _failure(
                "backup.killed",
                phrase(
                    "signal {signal} killed the program of stage '{name}' ({said})", signal=signal, name=name, said=said
                ),
            )
    if known := _known(state, log):
        raise _known_cause(plan, known, said)
    words = next((tail for name in ("write", "compress", "tool") if (tail := state.tails.get(name, "").strip())), "")
    raise _failure(
        "backup.failed",
        phrase("exit statuses: {said}. Last output: {output}", said=said, output=words[-500:] or phrase("(none)")),
    )


def _known(state: JobState, log: str) -> KnownFailure | None:
    found = [
        known_failure(text.splitlines())
        for text in (state.tails.get("write", ""), state.tails.get("compress", ""), log)
    ]
    known = [failure for failure in found if failure]
    return next((failure for failure in known if failure.code not in CONSEQUENCES), known[0] if known else None)


def _dump_problem(files: Mapping[str, str], log: str) -> str:
    end = files.get("end", "").strip()
    if not end.startswith("-- Dump completed"):
        return phrase(
            "the dump's last line is not '-- Dump completed' but: {end}", end=end[:200] or phrase("(nothing)")
        )
    unexpected = [line for line in log.splitlines() if not _HARMLESS.search(line)]
    return phrase("the dump program wrote: {line}", line=unexpected[0][:300]) if unexpected else ""


def _physical_problem(plan: BackupPlan, files: Mapping[str, str], log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    if not lines or not lines[-1].rstrip().endswith("completed OK!"):
        return phrase(
            "the backup tool's last line is not 'completed OK!' but: {line}",
            line=lines[-1][:300] if lines else phrase("(nothing)"),
        )
    if OTHER_DATADIR in log:
        return phrase("the backup tool read a different data directory than the server's")
    flavor = flavor_for(plan.version, plan.flavor)
    for kind in ("info", "checkpoints"):
        if not first_of(flavor, kind, files):
            return phrase(
                "the tool wrote no {name}",
                name=" or ".join(name for name in metadata_file_names(plan) if kind in name),
            )
    return ""
