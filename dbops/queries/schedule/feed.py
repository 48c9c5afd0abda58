"""Read the entries of a calendar feed: past runs, upcoming backup windows and maintenance."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Q

from dbops.engine.schedule.backup_windows import BackupWindow, Duration, spell
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import RUN_FINAL, RunStatus
from dbops.models import BackupRun, BackupSchedule, Cluster, Maintenance
from dbops.queries.backups.schedules import learned
from dbops.queries.schedule.windows import planned

PAST, AHEAD = timedelta(days=2), timedelta(days=14)
#: More entries would keep the web process and calendars busy for seconds.
ENTRIES_AT_MOST = 3000


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One calendar entry. ``key`` stays the same between readings; ``ends_at`` is ``None`` if unknown."""

    key: str
    starts_at: datetime
    ends_at: datetime | None
    title: str
    text: str
    cluster: str


def feed(cluster: Cluster | None, now: datetime) -> list[FeedEntry]:
    """Return the entries of one cluster, or (``None``) of all. Four queries."""
    schedules = BackupSchedule.objects.filter(is_enabled=True).select_related("instance__cluster")
    runs = (
        BackupRun.objects.filter(
            Q(started_at__gte=now - PAST) | Q(finished_at__gte=now - PAST) | ~Q(status__in=RUN_FINAL)
        )
        .exclude(started_at=None)
        .select_related("instance__cluster", "schedule")
        .defer("evidence", "progress", "checkpoint")
    )
    stops = (
        Maintenance.objects.filter(marked_at=None)
        .filter(Q(ends_at=None) | Q(ends_at__gte=now - PAST))
        .filter(starts_at__lte=now + AHEAD)
    )
    if cluster is not None:
        schedules, runs = schedules.filter(instance__cluster=cluster), runs.filter(instance__cluster=cluster)
        stops = stops.filter(cluster=cluster)
    known = {schedule.name: schedule for schedule in schedules}
    durations = learned(known.values())
    entries = [_of_run(run) for run in runs]
    # A due time whose run already exists is shown as that run.
    taken = {entry.key for entry in entries}
    windows = planned(known.values(), durations, Interval(now, now + AHEAD))
    for window in windows:
        schedule = known[window.schedule]
        entry = _of_window(window, schedule, durations[schedule.pk])
        if entry.key not in taken:
            entries.append(entry)
    entries += _of_maintenance(stops.select_related("cluster"))
    return _cut(sorted(entries, key=lambda entry: (entry.starts_at, entry.key)))


def _cut(entries: list[FeedEntry]) -> list[FeedEntry]:
    """Return the earliest entries, and a note if some are left out."""
    if len(entries) <= ENTRIES_AT_MOST:
        return entries
    last = entries[ENTRIES_AT_MOST]
    left_out = len(entries) - ENTRIES_AT_MOST
    text = f"{left_out} later entries are left out. Subscribe to single clusters instead."
    note = FeedEntry("cut", last.starts_at, None, "Calendar truncated", text, "dbops")
    return [*entries[:ENTRIES_AT_MOST], note]


def _key(schedule: int, due_at: datetime) -> str:
    return f"backup-{schedule}-{due_at.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _of_run(run: BackupRun) -> FeedEntry:
    assert run.started_at is not None  # noqa: S101 - the query left the others out
    name, cluster = run.instance.name, run.instance.cluster.name
    belongs = run.schedule_id is not None and run.due_at is not None
    text = [f"This backup is {run.status}." if run.status != RunStatus.SUCCEEDED else "This backup succeeded."]
    if run.schedule:
        text.append(f"Schedule: {run.schedule.name}.")
    if run.finished_at:
        text.append(f"Duration: {spell((run.finished_at - run.started_at).total_seconds())}.")
    return FeedEntry(
        key=_key(run.schedule_id, run.due_at) if belongs and run.schedule_id and run.due_at else f"run-{run.uid}",
        starts_at=run.started_at,
        ends_at=run.finished_at,
        title=f"Backup of {name} ({run.method}): {run.status}",
        text=" ".join(text),
        cluster=cluster,
    )


def _of_window(window: BackupWindow, schedule: BackupSchedule, duration: Duration | None) -> FeedEntry:
    text = [f"Schedule {window.schedule}: {schedule.cron} in {schedule.time_zone}."]
    text.append("Managed by dbops." if window.is_managed else "External cron job.")
    if duration is None:
        text.append("Duration: unknown.")
    elif duration.runs:
        text.append(
            f"Duration: median {spell(duration.p50_seconds)}, p90 {spell(duration.p90_seconds)} "
            f"(from {duration.runs} runs). This entry ends at the p90."
        )
    else:
        text.append(f"Expected duration: {spell(duration.p50_seconds)}.")
    return FeedEntry(
        key=_key(schedule.pk, window.starts_at),
        starts_at=window.starts_at,
        ends_at=window.ends_p90,
        title=f"Backup of {window.instance} ({window.method.value})",
        text=" ".join(text),
        cluster=schedule.instance.cluster.name,
    )


def _of_maintenance(stops: Iterable[Maintenance]) -> Iterator[FeedEntry]:
    for stop in stops:
        yield FeedEntry(
            key=f"maintenance-{stop.pk}",
            starts_at=stop.starts_at,
            ends_at=stop.ends_at,
            title=f"Maintenance of {stop.cluster.name}",
            text=f"{stop.reason} No rebuild starts during this time. Announced by {stop.created_by}.",
            cluster=stop.cluster.name,
        )
