"""Write the sample's backup runs, one per due time, with some anomalies."""

import hashlib
import random
import uuid
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from dbops.engine.backups.flags import RunFigures, flags_of
from dbops.engine.errors import RemoteFailure
from dbops.engine.phrases import phrase
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import LATE, RunStatus
from dbops.lib.cron import due_times
from dbops.models import BackupEvent, BackupRun, BackupSchedule, Hold
from dbops.sample.generate.clusters import CLUSTERS, SampleCluster, SampleSchedule
from dbops.sample.generate.facts import position_of
from dbops.sample.generate.inventory import KEPT, LATE_AFTER_SECONDS
from dbops.sample.generate.states import Spell
from dbops.sample.generate.story import RUNS_OF_NOTE

#: Effect of an anomaly on duration and size of a run.
TIMES, SIZES = {"too long": 1.62, "failed": 0.31}, {"small": 0.47, "large": 1.38, "failed": 0.28}
LATE_BY = timedelta(minutes=74)


def draw_runs(
    schedules: dict[str, BackupSchedule],
    away: dict[str, list[Spell]],
    begin: datetime,
    now: datetime,
    dice: random.Random,
) -> list[BackupRun]:
    """Return unsaved runs, because rebuilds can still delay them.

    Args:
        away: times without a host by instance; runs due then are missed.
    """
    runs = []
    for cluster in CLUSTERS:
        for item in cluster.schedules:
            dues = takewhile(lambda due: due < now, due_times(item.cron, item.zone, begin))
            gone = [Interval(spell.start, spell.end) for spell in away.get(item.instance, [])]
            runs += [_run(cluster, item, schedules[item.name], due, gone, now, dice) for due in dues]
    return runs


def _run(
    cluster: SampleCluster,
    item: SampleSchedule,
    schedule: BackupSchedule,
    due: datetime,
    gone: list[Interval],
    now: datetime,
    dice: random.Random,
) -> BackupRun:
    note = RUNS_OF_NOTE.get((item.name, (now.date() - due.date()).days), "")
    if item.name == "sessions-dump" and due.hour != 0:
        note = ""
    row = BackupRun(
        uid=uuid.UUID(int=dice.getrandbits(128)).hex,
        instance=schedule.instance,
        schedule=schedule,
        origin=item.origin,
        method=item.method,
        due_at=due,
        queued_at=due if item.origin == "managed" else None,
    )
    wait = LATE_BY if note == "late" else timedelta(seconds=dice.uniform(1, 9))
    start = due + wait
    seconds = item.hours * 3600 * dice.uniform(0.94, 1.07) * TIMES.get(note, 1.0)
    size = _size(cluster, item, now - due) * dice.uniform(0.992, 1.008) * SIZES.get(note, 1.0)
    if note == "missed" or any(span.start <= start < span.end for span in gone):
        row.status, row.finished_at, row.flags = RunStatus.MISSED, due + timedelta(seconds=LATE_AFTER_SECONDS), []
        row.outcome = phrase("Not detected or reported within 30 minutes of the due time.")
        return row
    _time(row, start, seconds, now)
    row.bytes_written = int(size) if row.origin != "observed" else None
    row.status = RunStatus.FAILED if note == "failed" else _status_of(row)
    _write_end(row, cluster, now)
    return row


def _size(cluster: SampleCluster, item: SampleSchedule, ago: timedelta) -> float:
    return cluster.data_bytes * item.share * (1 - cluster.growth) ** (ago.days / 7)


def _time(row: BackupRun, start: datetime, seconds: float, now: datetime) -> None:
    end = start + timedelta(seconds=seconds)
    row.started_at, row.finished_at = start, end if end <= now else None
    row.last_seen_at = min(end, now)


def _status_of(row: BackupRun) -> RunStatus:
    if row.finished_at is None:
        return RunStatus.RUNNING
    return RunStatus.ENDED if row.origin == "observed" else RunStatus.SUCCEEDED


def _write_end(row: BackupRun, cluster: SampleCluster, now: datetime) -> None:
    """Fill the results of a run: the file and its checksums, or the error."""
    assert row.started_at  # noqa: S101 - for the type checker
    assert row.schedule  # noqa: S101
    if row.status == RunStatus.RUNNING:
        row.bytes_written = None
        return
    ending = "sql.zst" if row.method == "dump" else "xbstream.zst"
    path = f"{row.schedule.directory}/{row.schedule.name}-{row.started_at:%Y%m%dT%H%M%SZ}.{ending}"
    row.exit_status = None if row.origin == "observed" else 0
    if row.status == RunStatus.FAILED:
        row.exit_status = 1
        error = RemoteFailure(
            "backup.failed",
            phrase("Backing up {instance}", instance=row.instance.name),
            cause="zstd: error 70: Write error: cannot write block: No space left on device",
        )
        row.error = error.as_record()
        row.outcome = phrase("No space left in the directory. No backup was published.")
    elif row.origin == "managed":
        row.path = path
        row.outcome = phrase("The backup is complete and published.")
        digest = hashlib.sha256(row.uid.encode()).hexdigest()
        row.evidence = {
            "run": row.uid,
            "bytes": row.bytes_written,
            "sha256": digest,
            "server": f"{cluster.flavor} {cluster.version}",
            "position": {"gtid": position_of(cluster, seconds_ago=(now - row.started_at).total_seconds())},
            "tool": f"{_tool(cluster, row)}",
        }
        plan = {"needed_bytes": int((row.bytes_written or 0) * 1.2), "data_bytes": cluster.data_bytes}
        row.checkpoint = {"plan": plan}
    elif row.origin == "reported":
        row.path = path


def _tool(cluster: SampleCluster, row: BackupRun) -> str:
    names = {"mariadb": ("mariadb-dump", "mariadb-backup"), "mysql": ("mysqldump", "xtrabackup")}[cluster.flavor]
    is_dump = row.method == "dump"
    return f"{names[0]} {cluster.version}" if is_dump else f"{names[1]} {cluster.tool}"


def put_off(runs: list[BackupRun], source: int, busy: Interval, now: datetime) -> None:
    """Delay dbops's own runs while a rebuild reads their instance."""
    for row in runs:
        if row.instance_id != source or row.origin != "managed" or not row.started_at or not row.finished_at:
            continue
        if busy.start <= row.started_at < busy.end:
            seconds = (row.finished_at - row.started_at).total_seconds()
            _time(row, busy.end + timedelta(seconds=2), seconds, now)


def write_runs(runs: list[BackupRun], now: datetime) -> None:
    """Flag runs by comparison with earlier ones, apply retention, and write all runs."""
    runs.sort(key=lambda row: row.due_at or now)
    by_schedule: dict[Any, list[BackupRun]] = {}
    for row in runs:
        before = by_schedule.setdefault(row.schedule_id, [])
        if row.status != RunStatus.MISSED:
            row.flags = _flags(row, before, now)
        before.append(row)
    for rows in by_schedule.values():
        _remove_old_files([row for row in rows if row.status == RunStatus.SUCCEEDED])
    written = BackupRun.objects.bulk_create(runs)
    BackupEvent.objects.bulk_create(event for row in written for event in _events(row))
    going = [row for row in written if row.status == RunStatus.RUNNING and row.origin == "managed"]
    Hold.objects.bulk_create(
        Hold(instance=row.instance, backup_run=row, purpose="backup", taken_at=row.started_at or now) for row in going
    )


def _flags(row: BackupRun, before: list[BackupRun], now: datetime) -> list[str]:
    history = [_figures(one, now) for one in reversed(before) if one.status == RunStatus.SUCCEEDED]
    return flags_of(_figures(row, now), history, now=now, late_after_seconds=LATE_AFTER_SECONDS)


def _figures(row: BackupRun, now: datetime) -> RunFigures:
    seconds = ((row.finished_at or now) - row.started_at).total_seconds() if row.started_at else None
    is_done = row.status == RunStatus.SUCCEEDED
    return RunFigures(row.due_at, row.started_at, seconds, row.bytes_written, is_done)


def _remove_old_files(done: list[BackupRun]) -> None:
    for number, row in enumerate(done[:-KEPT]):
        if row.origin == "managed":
            row.removed_at = done[number + KEPT].finished_at


def _events(row: BackupRun) -> list[BackupEvent]:
    lines: list[tuple[datetime | None, str, str]] = []
    if row.status == RunStatus.MISSED:
        lines.append((row.finished_at, "warning", phrase("Missed: {reason}", reason=row.outcome)))
    elif row.origin == "managed":
        lines.append((row.due_at, "info", phrase("Queued: the schedule {schedule} is due.", schedule=row.schedule)))
        if LATE in row.flags:
            reason = phrase("a rebuild reads {instance}", instance=row.instance)
            lines.append((row.due_at, "info", phrase("Waiting: {reason}.", reason=reason)))
        lines.append((row.started_at, "info", phrase("Started.")))
        if row.status == RunStatus.SUCCEEDED:
            lines.append(
                (
                    row.finished_at,
                    "info",
                    phrase("Backup {ended}. {outcome}", ended=phrase("succeeded"), outcome=row.outcome),
                )
            )
        elif row.status == RunStatus.FAILED:
            lines.append(
                (
                    row.finished_at,
                    "error",
                    phrase("Backup {ended}. {outcome}", ended=phrase("failed"), outcome=row.outcome),
                )
            )
    else:
        is_reported = row.origin == "reported"
        text = phrase("Start reported by the host.") if is_reported else phrase("First seen by a probe.")
        lines.append((row.started_at, "info", text))
        if row.finished_at:
            lines.append((row.finished_at, "info", phrase("The run has ended.")))
    return [BackupEvent(run=row, at=at, level=level, text=text) for at, level, text in lines if at]
