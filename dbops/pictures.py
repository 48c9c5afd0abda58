"""From rows to the engine's pictures: of one cluster, or of all with as many queries. Reads tables only."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.utils import timezone

from dbops.cron import BadSchedule, due_times
from dbops.engine.backups import RUN_ACTIVE, BackupMethod, Origin, RunBy, RunStatus
from dbops.engine.methods import METHODS, method_named
from dbops.engine.picture import Difference, Job, Machine, Picture, Stop, Use
from dbops.engine.prediction import Past, Prediction, predict
from dbops.engine.states import ACTIVE, Role, Status
from dbops.engine.windows import LEARNED_RUNS, Duration, Window, learn, window_at
from dbops.models import BackupRun, BackupSchedule, Cluster, Hold, Instance, Maintenance, Rebuild

#: Windows are drawn this far ahead: past the longest rebuild that begins tonight.
HORIZON = timedelta(hours=36)
#: Runs that ended longer ago say nothing about tonight's.
LEARNED_DAYS = 60
#: How many rebuilds of the whole fleet speak for a cluster that has none.
FLEET_REBUILDS = 1000
#: Ends that tell how long a run takes. An observed run is gone, and nobody said how it ended: that is all there is of some.
ENDED = (RunStatus.SUCCEEDED, RunStatus.ENDED)

_STATE = {
    "server": "server__version",
    "host": "host__hostname",
    "server_problem": "server_problem__text",
    "host_problem": "host_problem__text",
    "io": "server__replication__0__io_running",
    "sql": "server__replication__0__sql_running",
    "lag": "server__replication__0__lag_seconds",
    "io_error": "server__replication__0__last_io_error",
    "sql_error": "server__replication__0__last_sql_error",
    "data_bytes": "datadir__data_bytes",
}
_USES = {"source": Use.READ, "target": Use.REPLACE}


@dataclass(slots=True)
class _Rows:
    """What was read, by cluster."""

    machines: dict[int, list[Machine]] = field(default_factory=lambda: defaultdict(list))
    sizes: dict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    jobs: dict[int, list[Job]] = field(default_factory=lambda: defaultdict(list))
    windows: dict[int, list[Window]] = field(default_factory=lambda: defaultdict(list))
    stops: dict[int, list[Stop]] = field(default_factory=lambda: defaultdict(list))


def picture_of(cluster: Cluster, *, now: datetime | None = None) -> Picture:
    """Return one cluster as it is now."""
    return pictures(cluster, now=now)[cluster.pk]


def pictures(cluster: Cluster | None = None, *, now: datetime | None = None) -> dict[int, Picture]:
    """Return the picture of one cluster, or of each, by primary key. Nine queries, however many rows there are."""
    now = now or timezone.now()
    clusters = {cluster.pk: cluster.name} if cluster else dict(Cluster.objects.values_list("pk", "name"))
    rows = _Rows()
    held = _held(cluster)
    _read_machines(rows, cluster, held, now)
    past = _past_rebuilds()
    predictions = {key: _predictions(key, past, rows.sizes[key]) for key in clusters}
    learned = _learned(cluster, now)
    _read_windows(rows, cluster, learned, now)
    _read_rebuilds(rows, cluster, held, {key: found[""].duration for key, found in predictions.items()})
    _read_runs(rows, cluster, learned)
    _read_stops(rows, cluster, now)
    differences = _differences()
    return {
        key: Picture(
            now=now,
            cluster=name,
            machines=tuple(rows.machines[key]),
            jobs=tuple(rows.jobs[key]),
            windows=tuple(rows.windows[key]),
            stops=tuple(rows.stops[key]),
            difference=differences.get(key),
            prediction=predictions[key][""],
            predictions=predictions[key],
        )
        for key, name in clusters.items()
    }


def _differences() -> dict[int, Difference]:
    """Return by cluster what the servers say against the inventory. Nothing finds such differences yet."""
    return {}


def _of(rows: QuerySet[Any], cluster: Cluster | None, path: str) -> QuerySet[Any]:
    return rows.filter(**{path: cluster.pk}) if cluster else rows


# Instances


def _fact(path: str) -> KeyTextTransform:
    """Return one fact of a probe's record as text: reading thousands of whole records would take seconds."""
    *keys, last = path.split("__")
    inner: Any = "state__record"
    for key in keys:
        inner = KeyTransform(key, inner)
    return KeyTextTransform(last, inner)


_Held = dict[int, list[tuple[str, Use]]]


def _held(cluster: Cluster | None) -> _Held:
    """Return what rebuilds hold, by rebuild."""
    held: _Held = defaultdict(list)
    rows = _of(Hold.objects.exclude(rebuild=None), cluster, "instance__cluster")
    for pk, name, purpose in rows.values_list("rebuild", "instance__name", "purpose"):
        held[pk].append((name, _USES[purpose]))
    return held


def _read_machines(rows: _Rows, cluster: Cluster | None, held: _Held, now: datetime) -> None:
    replaced = {name for claims in held.values() for name, use in claims if use is Use.REPLACE}
    found = _of(Instance.objects.order_by("name"), cluster, "cluster").annotate(
        **{f"read_{name}": _fact(path) for name, path in _STATE.items()}
    )
    for key, name, role, observed_at, *values in found.values_list(
        "cluster", "name", "role", "state__observed_at", *(f"read_{name}" for name in _STATE)
    ):
        read = dict(zip(_STATE, (None if value in ("null", "") else value for value in values), strict=True))
        rows.machines[key].append(
            Machine(name, Role(role))
            if name in replaced  # what was read of it says nothing: its rebuild does
            else Machine(
                name,
                Role(role),
                problem=_problem(read, observed_at, now),
                stopped=_stopped(read),
                lag_seconds=float(read["lag"]) if read["lag"] is not None else None,
            )
        )
        if read["data_bytes"] is not None:
            rows.sizes[key][name] = int(read["data_bytes"])


def _problem(read: Mapping[str, Any], observed_at: datetime | None, now: datetime) -> str:
    if observed_at is None:
        return "it was never read"
    if (now - observed_at).total_seconds() > settings.FACTS_FRESH_SECONDS:
        return "its last probe is too old to trust"
    if read["server"] is None:
        return read["server_problem"] or "the server does not answer"
    if read["host"] is None:
        return read["host_problem"] or "the host does not answer over SSH"
    return ""


def _stopped(read: Mapping[str, Any]) -> str:
    if read["io"] is None:
        return "it replicates from nobody"
    if read["io"] == read["sql"] == "Yes":
        return ""
    return read["io_error"] or read["sql_error"] or f"IO {read['io']}, SQL {read['sql']}"


# How long things take


def _past_rebuilds() -> dict[int, list[Past]]:
    """Return the fleet's latest rebuilds that succeeded, by cluster, the latest first."""
    past: dict[int, list[Past]] = defaultdict(list)
    rows = Rebuild.objects.filter(
        status=Status.SUCCEEDED, method__in=list(METHODS), started_at__isnull=False, finished_at__isnull=False
    ).annotate(size=KeyTextTransform("stream.bytes", "memory"))
    for key, started, finished, size in rows.order_by("-finished_at").values_list(
        "target__cluster", "started_at", "finished_at", "size"
    )[:FLEET_REBUILDS]:
        copied = int(size) if size not in (None, "null", "") else None
        if started and finished:
            past[key].append(Past((finished - started).total_seconds(), copied))
    return past


def _predictions(key: int, past: Mapping[int, list[Past]], sizes: Mapping[str, int]) -> dict[str, Prediction]:
    """Return predictions by source; that under no name goes by the smallest source that was measured."""
    own = past.get(key, [])
    others = [] if own else [item for found in past.values() for item in found]
    found = {name: predict(own, others, bytes_to_copy=size) for name, size in sizes.items()}
    found[""] = predict(own, others, bytes_to_copy=min(sizes.values(), default=None))
    return found


_Learned = dict[tuple[str, int, str], list[float]]


def _learned(cluster: Cluster | None, now: datetime) -> _Learned:
    """Return the seconds of past runs, the latest first: by schedule, and by instance and method for runs without one."""
    found: _Learned = defaultdict(list)
    rows = BackupRun.objects.filter(
        status__in=ENDED, started_at__isnull=False, finished_at__gt=now - timedelta(days=LEARNED_DAYS)
    )
    for schedule, instance, method, started, finished in (
        _of(rows, cluster, "instance__cluster")
        .order_by("-finished_at")
        .values_list("schedule", "instance", "method", "started_at", "finished_at")
    ):
        seconds = found["schedule", schedule, ""] if schedule else found["instance", instance, method]
        if len(seconds) < LEARNED_RUNS:
            seconds.append((finished - started).total_seconds())
    return found


# What is due


def _read_windows(rows: _Rows, cluster: Cluster | None, learned: _Learned, now: datetime) -> None:
    found = _of(BackupSchedule.objects.filter(is_enabled=True), cluster, "instance__cluster").order_by("pk")
    for pk, key, instance, name, method, run_by, cron, zone, expected in found.values_list(
        *("pk", "instance__cluster", "instance__name", "name", "method", "run_by", "cron", "time_zone"),
        "expected_seconds",
    ):
        duration = learn(learned.get(("schedule", pk, ""), []), expected)
        rows.windows[key] += [
            window_at(
                due,
                instance=instance,
                schedule=name,
                method=BackupMethod(method),
                run_by=RunBy(run_by),
                duration=duration,
            )
            for due in _dues(cron, zone, now.replace(minute=0, second=0, microsecond=0))
            if now < due <= now + HORIZON
        ]


@lru_cache(maxsize=20_000)
def _dues(cron: str, zone: str, hour: datetime) -> tuple[datetime, ...]:
    """Return the due times of a schedule until the horizon of any moment of an hour: going through them costs more than reading them."""
    last = hour + HORIZON + timedelta(hours=1)
    try:
        return tuple(takewhile(lambda due: due <= last, due_times(cron, zone, hour - timedelta(seconds=1))))
    except BadSchedule:  # its page says so; nothing is due
        return ()


def _read_stops(rows: _Rows, cluster: Cluster | None, now: datetime) -> None:
    found = _of(Maintenance.objects.filter(Q(ends_at=None) | Q(ends_at__gt=now)), cluster, "cluster").order_by("pk")
    for key, starts, ends, reason, by in found.values_list("cluster", "starts_at", "ends_at", "reason", "created_by"):
        rows.stops[key].append(Stop(starts, ends, reason, by))


# What runs and what waits


def _read_rebuilds(rows: _Rows, cluster: Cluster | None, held: _Held, durations: Mapping[int, Duration | None]) -> None:
    """A rebuild that runs uses what it holds; one that is queued will use what its method claims."""
    found = _of(Rebuild.objects.filter(status__in=ACTIVE), cluster, "target__cluster").order_by("pk")
    for pk, key, status, method, target, source, priority, requested, started, not_before in found.values_list(
        *("pk", "target__cluster", "status", "method", "target__name", "source__name", "priority"),
        *("requested_at", "started_at", "not_before"),
    ):
        is_queued = status == Status.QUEUED
        rows.jobs[key].append(
            Job(
                name=f"rebuild {pk}",
                claims=tuple(_claims(method, target, source)) if is_queued else tuple(held.get(pk, ())),
                started_at=None if is_queued else started,
                queued_at=requested,
                not_before=not_before,
                priority=priority,
                # What follows a rebuild does other things, and nothing was measured of it.
                duration=durations.get(key) if method in METHODS else None,
                is_lost=status == Status.LOST,
                rebuild=pk,
            )
        )


def _claims(method: str, target: str, source: str) -> Iterator[tuple[str, Use]]:
    yield target, Use.REPLACE
    if method_named(method).reads_source:
        yield source, Use.READ


def _read_runs(rows: _Rows, cluster: Cluster | None, learned: _Learned) -> None:
    found = _of(BackupRun.objects.filter(status__in=RUN_ACTIVE), cluster, "instance__cluster").order_by("pk")
    for row in found.values(
        *("pk", "status", "origin", "method", "queued_at", "started_at", "last_seen_at", "instance", "schedule"),
        *("instance__name", "instance__cluster", "schedule__name", "schedule__expected_seconds"),
    ):
        is_managed = row["origin"] == Origin.MANAGED
        is_queued = row["status"] == RunStatus.QUEUED
        past = ("schedule", row["schedule"], "") if row["schedule"] else ("instance", row["instance"], row["method"])
        schedule = row["schedule__name"] or ""
        rows.jobs[row["instance__cluster"]].append(
            Job(
                name=f"backup run {row['pk']}" + (f" ({schedule})" if schedule else ""),
                claims=((row["instance__name"], Use(row["method"])),),
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
