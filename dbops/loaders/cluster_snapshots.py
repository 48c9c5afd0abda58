"""Load cluster snapshots from the database with a constant number of queries."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache, partial
from itertools import takewhile
from typing import Any

from django.conf import settings
from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.db.models import Window as Over
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import RowNumber

from dbops.database import clock
from dbops.engine.facts.age import age_seconds
from dbops.engine.methods import DEFAULT_METHOD, METHODS, method_named
from dbops.engine.phrases import phrase
from dbops.engine.schedule.backup_windows import (
    LEARNED_RUNS,
    BackupWindow,
    Duration,
    Past,
    Prediction,
    learn,
    predict,
    window_at,
)
from dbops.engine.schedule.snapshot import (
    ActiveJob,
    ClusterSnapshot,
    InstanceStatus,
    InstanceUse,
    MaintenanceWindow,
    TopologyMismatch,
)
from dbops.engine.states import ACTIVE, RUN_ACTIVE, Approval, BackupMethod, Role, RunBy, RunOrigin, RunStatus, Status
from dbops.engine.topology.differences import describe_difference
from dbops.lib.cron import BadSchedule, due_times, last_due
from dbops.lifecycle import topology_differences
from dbops.models import BackupRun, BackupSchedule, Cluster, Hold, Instance, Maintenance, Rebuild

#: Horizon of backup windows: longer than the longest rebuild that starts tonight.
HORIZON = timedelta(hours=36)
#: Runs that ended earlier are too old for estimates.
LEARNED_DAYS = 60
#: Number of rebuilds of the whole fleet used for a cluster without its own.
FLEET_REBUILDS = 1000
#: End states with a usable duration. An observed run ended with an unknown outcome; some runs have no other state.
ENDED = (RunStatus.SUCCEEDED, RunStatus.ENDED)

#: A page's text for an instance without usable facts.
NEVER_READ = "never probed"
READ_TOO_LONG_AGO = "the last probe is too old"

_USES = {"source": InstanceUse.READ, "target": InstanceUse.REPLACE}


@dataclass(slots=True)
class _SnapshotRows:
    """Loaded rows by cluster."""

    machines: dict[int, list[InstanceStatus]] = field(default_factory=lambda: defaultdict(list))
    sizes: dict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    jobs: dict[int, list[ActiveJob]] = field(default_factory=lambda: defaultdict(list))
    windows: dict[int, list[BackupWindow]] = field(default_factory=lambda: defaultdict(list))
    unseen: dict[int, list[BackupWindow]] = field(default_factory=lambda: defaultdict(list))
    stops: dict[int, list[MaintenanceWindow]] = field(default_factory=lambda: defaultdict(list))


def snapshot_of(cluster: Cluster, *, now: datetime | None = None) -> ClusterSnapshot:
    """Return the snapshot of one cluster."""
    return snapshots([cluster.pk], now=now)[cluster.pk]


def snapshots(
    only: Collection[int] | None = None, *, now: datetime | None = None, horizon: timedelta = HORIZON
) -> dict[int, ClusterSnapshot]:
    """Return the snapshots of some or all clusters by primary key, with eleven queries.

    1,000 clusters with 5,000 instances and 7,000 runs take almost a second, so a page requests only the visible ones.

    Args:
        only: primary keys of the requested clusters.
        horizon: how far ahead to calculate backup windows.
    """
    now = now or clock.now()
    clusters = dict(_of(Cluster.objects.order_by("name"), only, "pk").values_list("pk", "name"))
    rows = _SnapshotRows()
    held = _held(only)
    _read_machines(rows, only, held, now)
    past, fleet = _past_rebuilds(only), [one for _, one in _pasts(_succeeded(), LEARNED_RUNS)]
    predictions = {key: _predictions(past[key], fleet, rows.sizes[key]) for key in clusters}
    learned = _learned(only, now)
    _read_windows(rows, only, learned, now, horizon)
    _read_rebuilds(rows, only, held, {key: found[""].duration for key, found in predictions.items()})
    _read_runs(rows, only, learned)
    _read_stops(rows, only, now)
    different = differences()
    return {
        key: ClusterSnapshot(
            now=now,
            cluster=name,
            machines=tuple(rows.machines[key]),
            jobs=tuple(rows.jobs[key]),
            windows=tuple(rows.windows[key]),
            unseen=tuple(rows.unseen[key]),
            stops=tuple(rows.stops[key]),
            difference=different.get(key),
            prediction=predictions[key][""],
            predictions=predictions[key],
        )
        for key, name in clusters.items()
    }


def active_work(
    only: Collection[int] | None = None, *, now: datetime
) -> tuple[Mapping[int, list[ActiveJob]], Mapping[int, list[MaintenanceWindow]]]:
    """Return running and queued jobs without durations, and maintenance, by cluster. Four queries.

    Together with the instances, this decides whether a rebuild can start now, for lists of a thousand clusters.
    """
    rows = _SnapshotRows()
    _read_rebuilds(rows, only, _held(only), {})
    _read_runs(rows, only, {})
    _read_stops(rows, only, now)
    return rows.jobs, rows.stops


def differences() -> dict[int, TopologyMismatch]:
    """Return by cluster the topology differences that block rebuilds. One query."""
    found = topology_differences.blocks_rebuilds()
    return {key: TopologyMismatch(describe_difference(rows), rows[0].since) for key, rows in found.items()}


def _of(rows: QuerySet[Any], only: Collection[int] | None, path: str) -> QuerySet[Any]:
    return rows if only is None else rows.filter(**{f"{path}__in": only})


# Instances


_Held = dict[int, list[tuple[str, InstanceUse]]]


def _held(only: Collection[int] | None) -> _Held:
    """Return the holds by rebuild."""
    held: _Held = defaultdict(list)
    rows = _of(Hold.objects.exclude(rebuild=None), only, "instance__cluster")
    for pk, name, purpose in rows.values_list("rebuild", "instance__name", "purpose"):
        held[pk].append((name, _USES[purpose]))
    return held


def _read_machines(rows: _SnapshotRows, only: Collection[int] | None, held: _Held, now: datetime) -> None:
    replaced = {name for claims in held.values() for name, use in claims if use is InstanceUse.REPLACE}
    found = _of(Instance.objects.order_by("name"), only, "cluster").annotate(
        data_bytes=KeyTextTransform("data_bytes", KeyTransform("datadir", "state__record"))
    )
    for key, name, role, observed_at, problem, stopped, lag, data_bytes in found.values_list(
        *("cluster", "name", "role", "state__observed_at", "state__problem", "state__stopped", "state__lag_seconds"),
        "data_bytes",
    ):
        unknown = _why_unknown(observed_at, now)
        rows.machines[key].append(
            InstanceStatus(name, Role(role))
            if name in replaced
            else instance_status(name, Role(role), problem=unknown or problem, stopped=stopped or "", lag_seconds=lag)
        )
        if data_bytes not in (None, "null", ""):
            rows.sizes[key][name] = int(data_bytes)


def instance_status(name: str, role: Role, *, problem: str, stopped: str, lag_seconds: float | None) -> InstanceStatus:
    """Return an instance from its summary columns."""
    return InstanceStatus(name, role, problem=problem, stopped="" if problem else stopped, lag_seconds=lag_seconds)


def _why_unknown(observed_at: datetime | None, now: datetime) -> str:
    """Return why an instance's facts are unusable; empty if usable."""
    if observed_at is None:
        return NEVER_READ
    age = age_seconds(observed_at, now)
    return READ_TOO_LONG_AGO if age is None or age > settings.FACTS_MAX_AGE_SECONDS else ""


# Durations


def _past_rebuilds(only: Collection[int] | None) -> dict[int, list[Past]]:
    """Return recent successful rebuilds with the default method by cluster, newest first."""
    past: dict[int, list[Past]] = defaultdict(list)
    for key, one in _pasts(_of(_succeeded(), only, "target__cluster"), FLEET_REBUILDS):
        past[key].append(one)
    return past


def predicted(method: str, bytes_to_copy: Mapping[int, int | None]) -> dict[int, Prediction]:
    """Estimate a rebuild's duration with one method, from the cluster's own rebuilds or the fleet's. At most two queries.

    Args:
        bytes_to_copy: by cluster key.
    """
    rows = _succeeded(method)
    place = Over(RowNumber(), partition_by=F("target__cluster"), order_by=F("finished_at").desc())
    latest = rows.filter(target__cluster__in=list(bytes_to_copy)).annotate(place=place).filter(place__lte=LEARNED_RUNS)
    own: dict[int, list[Past]] = defaultdict(list)
    for key, one in _pasts(latest, None):
        own[key].append(one)
    fleet = [one for _, one in _pasts(rows, LEARNED_RUNS)] if bytes_to_copy.keys() - own.keys() else []
    return {
        key: predict(own[key], [] if own[key] else fleet, bytes_to_copy=size) for key, size in bytes_to_copy.items()
    }


def _succeeded(method: str = DEFAULT_METHOD) -> QuerySet[Rebuild]:
    return Rebuild.objects.filter(
        status=Status.SUCCEEDED, method=method, started_at__isnull=False, finished_at__isnull=False
    )


def _pasts(rows: QuerySet[Rebuild], most: int | None) -> Iterator[tuple[int, Past]]:
    found = rows.annotate(size=KeyTextTransform("stream.bytes", "checkpoint")).order_by("-finished_at")
    for key, started, finished, size in found.values_list("target__cluster", "started_at", "finished_at", "size")[
        :most
    ]:
        copied = int(size) if size not in (None, "null", "") else None
        if started and finished:
            yield key, Past((finished - started).total_seconds(), copied)


def _predictions(own: Sequence[Past], fleet: Sequence[Past], sizes: Mapping[str, int]) -> dict[str, Prediction]:
    """Return predictions by source; the one without a name uses the smallest measured source."""
    others = [] if own else fleet
    found = {name: predict(own, others, bytes_to_copy=size) for name, size in sizes.items()}
    found[""] = predict(own, others, bytes_to_copy=min(sizes.values(), default=None))
    return found


_Learned = dict[tuple[str, int, str], list[float]]


def _learned(only: Collection[int] | None, now: datetime) -> _Learned:
    """Return durations of past runs, newest first, by schedule, or by instance and method without one."""
    found: _Learned = defaultdict(list)
    rows = BackupRun.objects.filter(
        status__in=ENDED, started_at__isnull=False, finished_at__gt=now - timedelta(days=LEARNED_DAYS)
    )
    for schedule, instance, method, started, finished in (
        _of(rows, only, "instance__cluster")
        .order_by("-finished_at")
        .values_list("schedule", "instance", "method", "started_at", "finished_at")
    ):
        seconds = found["schedule", schedule, ""] if schedule else found["instance", instance, method]
        if len(seconds) < LEARNED_RUNS:
            seconds.append((finished - started).total_seconds())
    return found


# Due times


def _read_windows(
    rows: _SnapshotRows, only: Collection[int] | None, learned: _Learned, now: datetime, horizon: timedelta
) -> None:
    found = _of(BackupSchedule.objects.filter(is_enabled=True), only, "instance__cluster").order_by("pk")
    of_it = BackupRun.objects.filter(schedule=OuterRef("pk"), due_at__lte=now).order_by("-due_at")
    for pk, key, instance, name, method, run_by, cron, zone, expected, late, met in found.values_list(
        *("pk", "instance__cluster", "instance__name", "name", "method", "run_by", "cron", "time_zone"),
        *("expected_seconds", "late_after_seconds", Subquery(of_it.values("due_at")[:1])),
    ):
        window = partial(
            window_at,
            instance=instance,
            schedule=name,
            method=BackupMethod(method),
            run_by=RunBy(run_by),
            duration=learn(learned.get(("schedule", pk, ""), []), expected),
        )
        hour = now.replace(minute=0, second=0, microsecond=0)
        dues = _dues(cron, zone, hour, horizon)
        rows.windows[key] += [window(due) for due in dues if now < due <= now + horizon]
        if run_by == RunBy.EXTERNAL:
            due = max((due for due in dues if due <= now), default=None) or _last_due(cron, zone, hour)
            if due and now < due + timedelta(seconds=late) and (met is None or met < due):
                rows.unseen[key].append(window(due))


@lru_cache(maxsize=20_000)
def _last_due(cron: str, zone: str, hour: datetime) -> datetime | None:
    try:
        return last_due(cron, zone, hour)
    except BadSchedule:
        return None


@lru_cache(maxsize=20_000)
def _dues(cron: str, zone: str, hour: datetime, horizon: timedelta) -> tuple[datetime, ...]:
    """Return a schedule's due times until the horizon, cached per hour because calculating them is slow."""
    last = hour + horizon + timedelta(hours=1)
    try:
        return tuple(takewhile(lambda due: due <= last, due_times(cron, zone, hour - timedelta(seconds=1))))
    except BadSchedule:  # the schedule's page shows the error; nothing is due
        return ()


def _read_stops(rows: _SnapshotRows, only: Collection[int] | None, now: datetime) -> None:
    found = _of(Maintenance.objects.filter(Q(ends_at=None) | Q(ends_at__gt=now)), only, "cluster").order_by("pk")
    for key, starts, ends, reason, by in found.values_list("cluster", "starts_at", "ends_at", "reason", "created_by"):
        rows.stops[key].append(MaintenanceWindow(starts, ends, reason, by))


# Running and queued jobs


def _read_rebuilds(
    rows: _SnapshotRows, only: Collection[int] | None, held: _Held, durations: Mapping[int, Duration | None]
) -> None:
    """Return the instances of a rebuild: the holds of a running one, the claims of a queued one."""
    found = _of(Rebuild.objects.filter(status__in=ACTIVE), only, "target__cluster").order_by("pk")
    for (
        pk,
        key,
        status,
        method,
        target,
        source,
        priority,
        requested,
        started,
        not_before,
        after,
        approval,
        leader,
    ) in found.values_list(
        *("pk", "target__cluster", "status", "method", "target__name", "source__name", "priority"),
        *("requested_at", "started_at", "not_before", "start_after_run", "approval", "leader"),
    ):
        is_queued = status == Status.QUEUED
        rows.jobs[key].append(
            ActiveJob(
                name=phrase("rebuild {number}", number=pk),
                claims=tuple(_claims(method, target, source)) if is_queued else tuple(held.get(pk, ())),
                started_at=None if is_queued else started,
                queued_at=requested,
                not_before=not_before,
                start_after_run=after,
                priority=priority,
                # A follow-up does other work, without measurements.
                duration=durations.get(key) if method in METHODS else None,
                is_lost=status == Status.LOST,
                needs_approval=approval == Approval.WAITING,
                rebuild=pk,
                method=method_named(method),
                source=source,
                leader=leader,
            )
        )


def _claims(method: str, target: str, source: str) -> Iterator[tuple[str, InstanceUse]]:
    yield target, InstanceUse.REPLACE
    if method_named(method).reads_source:
        yield source, InstanceUse.READ


def _read_runs(rows: _SnapshotRows, only: Collection[int] | None, learned: _Learned) -> None:
    found = _of(BackupRun.objects.filter(status__in=RUN_ACTIVE), only, "instance__cluster").order_by("pk")
    for row in found.values(
        *("pk", "status", "origin", "method", "queued_at", "started_at", "last_seen_at", "instance", "schedule"),
        *("instance__name", "instance__cluster", "schedule__name", "schedule__expected_seconds"),
    ):
        is_managed = row["origin"] == RunOrigin.MANAGED
        is_queued = row["status"] == RunStatus.QUEUED
        past = ("schedule", row["schedule"], "") if row["schedule"] else ("instance", row["instance"], row["method"])
        schedule = row["schedule__name"] or ""
        rows.jobs[row["instance__cluster"]].append(
            ActiveJob(
                name=phrase("backup run {number} ({schedule})", number=row["pk"], schedule=schedule)
                if schedule
                else phrase("backup run {number}", number=row["pk"]),
                claims=((row["instance__name"], InstanceUse(row["method"])),),
                started_at=None if is_queued else row["started_at"] or row["last_seen_at"] or row["queued_at"],
                queued_at=row["queued_at"],
                duration=learn(learned.get(past, []), row["schedule__expected_seconds"]),
                is_managed=is_managed,
                is_lost=row["status"] == RunStatus.LOST,
                can_be_stopped=is_managed,
                schedule=schedule,
                run=row["pk"],
            )
        )
