"""The work of one backup run: a job that is started once and found again, then judged, published, and older files removed.

Nothing here touches replication: no step stops or starts it, and no option of the tools that does is used.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from dbops.engine.backups.completeness import VerifiedBackup, judge_backup
from dbops.engine.backups.plan import CREDENTIALS, JOB, BackupPlan, metadata_file_names, record_of
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.hosts.jobs import IN_BASH, REFUSED_STATUS, DetachedJob, RunJournal
from dbops.engine.hosts.progress import add_sample, copy_progress
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.stall import StallLimits
from dbops.engine.ports import Clock, Jobs, JobState, JobStatus
from dbops.engine.states import BackupMethod, Level


@dataclass(slots=True)
class BackupContext:
    """One run at work. ``credentials`` is an option file's text; ``checkpoint`` is plain data that survives the driver."""

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
        return Unreachable("backup.not_ended", f"Ending the backup of {self.plan.instance}", cause=found)


def _stalled(found: str) -> RemoteFailure:
    return RemoteFailure("backup.stalled", "Making the backup", cause=found)


@dataclass(frozen=True, slots=True)
class PublishedBackup:
    """A backup under its final name. ``record`` is what stands beside it."""

    path: str
    bytes: int
    record: dict[str, Any]


class Removal(StrEnum):
    """What became of a file that was to be removed. ``ABSENT``: it was not there, which is no proof that it is gone."""

    REMOVED = "removed"
    ABSENT = "absent"
    KEPT = "kept"


def advance(site: BackupContext) -> PublishedBackup | None:
    """Do or follow what is due for about a second. Return the published backup once it is, ``None`` to be asked again.

    Raises:
        Unreachable: nothing is known of the host; before the job was asked for (``memory["asked"]``) nothing runs there either.
        Refused, RemoteFailure: the run has failed; ``clean_up`` ends it.
        Cancelled: by the journal.
    """
    site.job.begin(site.journal, lambda: site.journal.say(f"Runs on {site.plan.instance}'s host: {site.plan.command}"))
    state = site.job.follow(lambda: _start(site))
    if state.status is JobStatus.ABSENT:
        return None
    if state.status is JobStatus.RUNNING:
        _report_progress(site, state)
        site.job.watch(state, site.stall, site.warn)
        site.journal.check()
        return None
    whole = judge_backup(site.plan, state, _files(site, state))
    return _publish(site, state, whole)


def clean_up(site: BackupContext, *, is_final_kept: bool = False) -> None:
    """End the job if it runs and remove its files. Any number of times. Raises as ``Jobs``, ``Unreachable`` too while it cannot be ended.

    Args:
        site: the run that has failed, or was stopped.
        is_final_kept: leave what stands under the final name: until there is another, it may be the only backup.
    """
    if not site.checkpoint.get("asked"):
        return
    site.job.stop()
    kept = {path for path, end in remove(site, [site.plan.partial_path]).items() if end is Removal.KEPT}
    if site.checkpoint.get("final") and not is_final_kept and not _withdraw(site):
        kept.add(site.plan.path)
    if kept:
        raise RemoteFailure(
            "backup.not_removed",
            "Removing the files of the failed backup",
            cause=", ".join(sorted(kept)),
        )


def remove(site: BackupContext, paths: list[str]) -> dict[str, Removal]:
    """Remove files with their records. Return what became of each. Raises as ``Jobs``."""
    result = site.jobs.act(IN_BASH, load("common", "remove_backups"), *paths)
    said = {path: word for word, _, path in (line.partition(" ") for line in result.stdout.splitlines())}
    words = {"removed": Removal.REMOVED, "absent": Removal.ABSENT}
    return {path: words.get(said.get(path, ""), Removal.KEPT) for path in paths}


def _withdraw(site: BackupContext) -> bool:
    """Remove what stands under the final name where it is this run's. Return whether nothing of the run is left there."""
    plan, final = site.plan, site.checkpoint["final"]
    result = site.jobs.act(
        IN_BASH,
        load("common", "withdraw_backup"),
        plan.directory,
        plan.file,
        str(final["bytes"]),
        plan.run_id,
        final["sha256"],
    )
    if result.exit_status is None:
        raise Unreachable("ssh.lost", "Removing a failed backup", cause="the connection ended before the answer")
    if result.stdout.strip() == "another":
        site.journal.say(f"{plan.path} is not this run's file, and was left alone.", level=Level.WARNING)
    return result.exit_status == 0


def _start(site: BackupContext) -> None:
    plan = site.plan
    site.checkpoint.setdefault("began", site.clock.now())
    site.jobs.start(
        JOB,
        load("common", "pipes", "back_up"),
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
        str(len(plan.options)),
        *plan.options,
        *plan.compressor,
        secrets={CREDENTIALS: site.credentials},
    )


def _report_progress(site: BackupContext, state: JobState) -> None:
    """Bytes of the file are those that the compressor has written; how far it is follows the last run, else what was read."""
    now = site.clock.now()
    written, read = state.counters.get("compress.write_bytes"), state.counters.get("compress.read_bytes")
    if written is not None and read is not None:
        by_size = site.plan.expected_bytes is not None or site.plan.method is BackupMethod.DUMP
        done, total = (written, site.plan.expected_bytes) if by_size else (read, site.plan.data_bytes)
        samples = site.checkpoint["samples"] = add_sample(site.checkpoint.get("samples", []), at=now, count=done)
        known = copy_progress(
            samples, received_bytes=done, total_bytes=total, elapsed_seconds=now - site.checkpoint.get("began", now)
        )
        site.journal.progress(**{**known, "bytes": written, "read_bytes": read})


def _files(site: BackupContext, state: JobState) -> str:
    if state.status is JobStatus.VANISHED or not state.stages:
        return ""
    return site.jobs.read(JOB, "files", limit=1024**2).decode("utf-8", "replace")


def _publish(site: BackupContext, state: JobState, whole: VerifiedBackup) -> PublishedBackup:
    plan = site.plan
    record = {
        **record_of(plan),
        "bytes": whole.bytes,
        "sha256": whole.sha256,
        "position": asdict(whole.position),
        "tool": whole.tool,
        "mount": whole.mount,
        "exit_statuses": dict(whole.exit_statuses),
        "command": plan.command,
        "started_at": _iso(state.started_at),
        "ended_at": _iso(state.ended_at),
    }
    site.checkpoint["publishing"] = True
    site.checkpoint["final"] = {"bytes": whole.bytes, "sha256": whole.sha256}
    site.journal.flush()  # whoever comes after a driver that dies from here on must know what may stand under the final name
    text = json.dumps(record, indent=2, sort_keys=True) + "\n"
    result = site.jobs.act(
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
        raise Unreachable("ssh.lost", "Publishing the backup", cause="the connection ended before the answer")
    if result.exit_status == REFUSED_STATUS:
        # what stands there is somebody else's: nothing of ours may be looked for under that name
        del site.checkpoint["final"]
    if result.exit_status != 0:
        said = f"{result.stdout}{result.stderr}".strip()[-400:]
        raise RemoteFailure(
            "backup.unpublished",
            "Publishing the backup",
            cause=said or f"status {result.exit_status}",
        )
    for line in whole.warnings:
        site.journal.say(f"The dump program wrote: {line[:300]}", level=Level.WARNING)
    return PublishedBackup(plan.path, whole.bytes, record)


def _iso(seconds: float | None) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None
