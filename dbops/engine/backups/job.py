"""Run the job of one backup run: start or find it, check it, publish the file, remove older files.

Replication stays unchanged: no step stops or starts it, and no option of the tools does.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from dbops.engine.backups.completeness import VerifiedBackup, judge_backup
from dbops.engine.backups.plan import CREDENTIALS, JOB, BackupPlan, metadata_file_names, record_of
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.tool_options import NO_TOOL, script_arguments
from dbops.engine.hosts.jobs import IN_BASH, REFUSED_STATUS, DetachedJob, RunJournal
from dbops.engine.hosts.progress import add_sample, copy_progress
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.stall import StallLimits
from dbops.engine.phrases import phrase
from dbops.engine.ports import Clock, Jobs, JobState, JobStatus
from dbops.engine.states import BackupMethod, Level


@dataclass(slots=True)
class BackupContext:
    """One running backup.

    ``credentials`` is the text of an option file; ``checkpoint`` is plain data that survives the driver.
    """

    plan: BackupPlan
    jobs: Jobs
    clock: Clock
    credentials: str
    checkpoint: dict[str, Any]
    journal: RunJournal
    stall: StallLimits = StallLimits(60.0, 1800.0)

    @property
    def job(self) -> DetachedJob:
        return DetachedJob(JOB, self.jobs, self.clock, self.checkpoint, _stalled, self._not_ended)

    def warn(self, text: str) -> None:
        self.journal.say(text, level=Level.WARNING)

    def _not_ended(self, found: str) -> Unreachable:
        return Unreachable(
            "backup.not_ended", phrase("Ending the backup of {instance}", instance=self.plan.instance), cause=found
        )


def _stalled(found: str) -> RemoteFailure:
    return RemoteFailure("backup.stalled", phrase("Running the backup"), cause=found)


@dataclass(frozen=True, slots=True)
class PublishedBackup:
    """A backup under its final name. ``record`` is the content of its record file."""

    path: str
    bytes: int
    record: dict[str, Any]


class RemovalResult(StrEnum):
    """The result of a removal. ``ABSENT``: the file was not found, so it may not be gone for good."""

    REMOVED = "removed"
    ABSENT = "absent"
    KEPT = "kept"


def advance(context: BackupContext) -> PublishedBackup | None:
    """Advance the backup for about a second. Return the published backup, or ``None`` if it is not finished.

    Raises:
        Unreachable: the host does not answer; before the job was requested (``checkpoint["asked"]``) nothing runs there.
        Refused, RemoteFailure: the run has failed; ``clean_up`` ends it.
        Cancelled: by the journal.
    """
    context.job.begin(context.journal, lambda: _announce(context))
    state = context.job.follow(lambda: _start(context))
    if state.status is JobStatus.ABSENT:
        return None
    if state.status is JobStatus.RUNNING:
        _report_progress(context, state)
        context.job.watch(state, context.stall, context.warn)
        context.journal.check()
        return None
    whole = judge_backup(context.plan, state, _files(context, state))
    return _publish(context, state, whole)


def _announce(context: BackupContext) -> None:
    plan = context.plan
    context.journal.say(
        phrase("Command on the host of {instance}: {command}", instance=plan.instance, command=plan.command)
    )
    for gap in plan.gaps:
        context.warn(gap)


def clean_up(context: BackupContext, *, is_final_kept: bool = False) -> None:
    """Stop the job and remove its files.

    Idempotent. Raises like ``Jobs``, and ``Unreachable`` while the job can't be stopped.

    Args:
        context: the failed or stopped run.
        is_final_kept: keep the file with the final name: it may be the only backup.
    """
    if not context.checkpoint.get("asked"):
        return
    context.job.stop()
    kept = {path for path, end in remove(context, [context.plan.partial_path]).items() if end is RemovalResult.KEPT}
    if context.checkpoint.get("final") and not is_final_kept and not _withdraw(context):
        kept.add(context.plan.path)
    if kept:
        raise RemoteFailure(
            "backup.not_removed",
            phrase("Removing the files of the failed backup"),
            cause=", ".join(sorted(kept)),
        )


def remove(context: BackupContext, paths: list[str]) -> dict[str, RemovalResult]:
    """Remove files with their records. Return the result for each. Raises like ``Jobs``."""
    result = context.jobs.act(IN_BASH, load("common", "remove_backups"), *paths)
    said = {path: word for word, _, path in (line.partition(" ") for line in result.stdout.splitlines())}
    words = {"removed": RemovalResult.REMOVED, "absent": RemovalResult.ABSENT}
    return {path: words.get(said.get(path, ""), RemovalResult.KEPT) for path in paths}


def _withdraw(context: BackupContext) -> bool:
    """Remove the file with the final name if it is of this run. Return whether no file of the run is left."""
    plan, final = context.plan, context.checkpoint["final"]
    result = context.jobs.act(
        IN_BASH,
        load("common", "withdraw_backup"),
        plan.directory,
        plan.file,
        str(final["bytes"]),
        plan.run_id,
        final["sha256"],
    )
    if result.exit_status is None:
        raise Unreachable(
            "ssh.lost", phrase("Removing a failed backup"), cause=phrase("the connection ended before the answer")
        )
    if result.stdout.strip() == "another":
        context.journal.say(phrase("{path} belongs to another run and was kept.", path=plan.path), level=Level.WARNING)
    return result.exit_status == 0


def _start(context: BackupContext) -> None:
    plan = context.plan
    context.checkpoint.setdefault("began", context.clock.now())
    context.jobs.start(
        JOB,
        load("common", "pipes", "tool_options", "tool_account", "back_up"),
        plan.machine,
        plan.datadir,
        plan.datadir_identity,
        str(plan.server_id),
        plan.socket,
        plan.directory,
        plan.partial,
        str(plan.needed_bytes),
        plan.method.value,
        " ".join(plan.clients),
        " ".join(plan.tools),
        " ".join(metadata_file_names(plan) if plan.method is BackupMethod.PHYSICAL else ()),
        plan.mount,
        *_tool_options(plan),
        str(len(plan.options)),
        *plan.options,
        *plan.compressor,
        secrets={CREDENTIALS: context.credentials},
    )


def _tool_options(plan: BackupPlan) -> list[str]:
    """Return the script's arguments for the tool's option file; a dump program needs nothing of the server's."""
    if plan.method is BackupMethod.DUMP:
        return NO_TOOL
    return script_arguments(flavor_for(plan.version, plan.flavor), plan.defaults_file)


def _report_progress(context: BackupContext, state: JobState) -> None:
    """Return the progress: bytes written by the compressor, and a share by the last run's size or the bytes read."""
    now = context.clock.now()
    written, read = state.counters.get("compress.write_bytes"), state.counters.get("compress.read_bytes")
    if written is not None and read is not None:
        by_size = context.plan.expected_bytes is not None or context.plan.method is BackupMethod.DUMP
        done, total = (written, context.plan.expected_bytes) if by_size else (read, context.plan.data_bytes)
        samples = context.checkpoint["samples"] = add_sample(context.checkpoint.get("samples", []), at=now, count=done)
        known = copy_progress(
            samples, received_bytes=done, total_bytes=total, elapsed_seconds=now - context.checkpoint.get("began", now)
        )
        context.journal.progress(**{**known, "bytes": written, "read_bytes": read})


def _files(context: BackupContext, state: JobState) -> str:
    if state.status is JobStatus.VANISHED or not state.stages:
        return ""
    return context.jobs.read(JOB, "files", limit=1024**2).decode("utf-8", "replace")


def _publish(context: BackupContext, state: JobState, whole: VerifiedBackup) -> PublishedBackup:
    plan = context.plan
    record = {
        **record_of(plan),
        "bytes": whole.bytes,
        "sha256": whole.sha256,
        "position": asdict(whole.position),
        "tool": whole.tool,
        "mount": whole.mount,
        "write_lock_seconds": whole.write_lock_seconds,
        "exit_statuses": dict(whole.exit_statuses),
        "command": plan.command,
        "started_at": _iso(state.started_at),
        "ended_at": _iso(state.ended_at),
    }
    context.checkpoint["publishing"] = True
    context.checkpoint["final"] = {"bytes": whole.bytes, "sha256": whole.sha256}
    context.journal.flush()  # a driver that takes over must know that the final name may be in use
    text = json.dumps(record, indent=2, sort_keys=True) + "\n"
    result = context.jobs.act(
        IN_BASH,
        load("common", "publish_backup"),
        plan.directory,
        plan.partial,
        plan.file,
        whole.identity,
        str(whole.bytes),
        plan.run_id,
        whole.sha256,
        stdin=text.encode(),
    )
    if result.exit_status is None:
        raise Unreachable(
            "ssh.lost", phrase("Publishing the backup"), cause=phrase("the connection ended before the answer")
        )
    if result.exit_status == REFUSED_STATUS:
        # the file with that name belongs to another run: do not search for ours there
        del context.checkpoint["final"]
    if result.exit_status != 0:
        said = f"{result.stdout}{result.stderr}".strip()[-400:]
        raise RemoteFailure(
            "backup.unpublished",
            phrase("Publishing the backup"),
            cause=said or phrase("status {status}", status=result.exit_status),
        )
    for line in whole.warnings:
        context.journal.say(phrase("The dump program wrote: {line}", line=line[:300]), level=Level.WARNING)
    return PublishedBackup(plan.path, whole.bytes, record)


def _iso(seconds: float | None) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None
