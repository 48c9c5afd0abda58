"""When each waiting job is expected to start: rows become lines, holds and lengths, and the engine follows the lines.

Lengths come from this fleet's own history: a rebuild's from what its steps were predicted to take, a backup's from the median of
its schedule's last runs, else from what a person expects.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from django.db.models import Count, Q, Sum

from dbops.engine.backup_states import RUN_AT_WORK, RunStatus
from dbops.engine.schedule.scheduler import Certainty, Key, Kind, Length, Moment, Queued, expect_starts
from dbops.engine.states import Approval, Status, StepState
from dbops.models import BackupRun, Hold, Rebuild
from dbops.worker import scheduler

#: Runs that ended longer ago say nothing of the next one.
HISTORY_DAYS = 60


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """``at`` is ``None`` where nothing is known; it is not before ``earliest`` in any case."""

    at: datetime | None
    earliest: datetime
    certainty: Certainty


def expected_starts(now: datetime) -> dict[Key, ExpectedStart]:
    """Return when each queued rebuild and backup run is expected to start, by kind and primary key. Sixteen queries, whatever waits.

    When somebody approves what waits for that is not known; until then it keeps nobody else waiting.
    """
    unapproved = {
        (Kind.REBUILD, pk): ExpectedStart(None, now, Certainty.UNKNOWN)
        for pk in Rebuild.objects.filter(status=Status.QUEUED, approval=Approval.WAITING)
        .order_by()
        .values_list("pk", flat=True)
    }
    jobs = [job for job in scheduler.queued_jobs(now) if job.key not in unapproved]
    gates = {
        pk: (not_before, after)
        for pk, not_before, after in Rebuild.objects.filter(status=Status.QUEUED)
        .filter(Q(not_before__isnull=False) | Q(after_run__isnull=False))
        .values_list("pk", "not_before", "after_run_id")
    }
    lengths = {**_rebuild_lengths(), **_backup_lengths(now)}
    holds, ends = _ends(lengths, now)
    queued = []
    for job in jobs:
        not_before, after = gates.get(job.pk, (None, None)) if job.kind is Kind.REBUILD else (None, None)
        queued.append(
            Queued(
                job,
                lengths.get(job.key, Length(None)),
                not_before.timestamp() if not_before else None,
                (Kind.BACKUP, after) if after else None,
            )
        )
    found = expect_starts(queued, holds, ends, now.timestamp())
    return {**{key: _in_time(moment) for key, moment in found.items()}, **unapproved}


def _in_time(moment: Moment) -> ExpectedStart:
    at = datetime.fromtimestamp(moment.at, UTC) if moment.at is not None else None
    return ExpectedStart(at, datetime.fromtimestamp(moment.earliest, UTC), moment.certainty)


def _rebuild_lengths() -> dict[Key, Length]:
    """A rebuild of which any step has no prediction is not predicted: a sum of the others would be too short."""
    skipped = Q(steps__state=StepState.SKIPPED)
    rows = Rebuild.objects.filter(status__in=(Status.QUEUED, Status.RUNNING, Status.LOST)).order_by()
    known = rows.annotate(
        seconds=Sum("steps__predicted_seconds", filter=~skipped),
        unknown=Count("steps", filter=~skipped & Q(steps__predicted_seconds=None)),
    ).values_list("pk", "seconds", "unknown")
    return {(Kind.REBUILD, pk): Length(None if unknown else seconds) for pk, seconds, unknown in known}


def _backup_lengths(now: datetime) -> dict[Key, Length]:
    active = BackupRun.objects.filter(status__in=(RunStatus.QUEUED, *RUN_AT_WORK)).order_by()
    wanted = list(active.values_list("pk", "schedule_id", "schedule__expected_seconds"))
    history = _history({schedule for _, schedule, _ in wanted if schedule}, now)
    found: dict[Key, Length] = {}
    for pk, schedule, expected in wanted:
        known = history.get(schedule)
        length = Length(median(known)) if known else Length(expected, Certainty.ASSUMED)
        found[Kind.BACKUP, pk] = length
    return found


def _history(schedules: Iterable[int], now: datetime) -> dict[int | None, list[float]]:
    ended = BackupRun.objects.filter(
        schedule__in=schedules, status=RunStatus.SUCCEEDED, finished_at__gt=now - timedelta(days=HISTORY_DAYS)
    )
    found: dict[int | None, list[float]] = {}
    for schedule, began, over in ended.order_by("-pk").values_list("schedule_id", "started_at", "finished_at"):
        if began and over:
            found.setdefault(schedule, []).append((over - began).total_seconds())
    return {schedule: seconds[:10] for schedule, seconds in found.items()}


def _ends(lengths: dict[Key, Length], now: datetime) -> tuple[dict[int, Moment], dict[Key, Moment]]:
    """Return when each held instance is expected to be free, and when each backup that runs is expected to end."""
    ends: dict[Key, Moment] = {}
    running = BackupRun.objects.filter(status__in=RUN_AT_WORK).order_by()
    for pk, began, progress in running.values_list("pk", "started_at", "progress"):
        ends[Kind.BACKUP, pk] = _end(began, lengths.get((Kind.BACKUP, pk)), progress, now)
    rebuilds = Rebuild.objects.filter(status__in=(Status.RUNNING, Status.LOST)).order_by()
    for pk, began in rebuilds.values_list("pk", "started_at"):
        ends[Kind.REBUILD, pk] = _end(began, lengths.get((Kind.REBUILD, pk)), {}, now)
    holds = {
        instance: ends.get((Kind.BACKUP, run) if run else (Kind.REBUILD, rebuild or 0), _unknown(now))
        for instance, rebuild, run in Hold.objects.order_by().values_list("instance_id", "rebuild_id", "backup_run_id")
    }
    return holds, {key: moment for key, moment in ends.items() if key[0] is Kind.BACKUP}


def _end(began: datetime | None, length: Length | None, progress: dict[str, Any], now: datetime) -> Moment:
    if progress.get("eta_seconds") is not None:
        return Moment(now.timestamp() + progress["eta_seconds"], Certainty.PREDICTED, now.timestamp())
    if began is None or length is None or length.seconds is None:
        return _unknown(now)
    return Moment(began.timestamp() + length.seconds, length.certainty, now.timestamp())


def _unknown(now: datetime) -> Moment:
    return Moment(None, Certainty.UNKNOWN, now.timestamp())
