"""Load the history that availability is calculated from: periods, backup runs and rebuilds."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import F, Max, Min, Q, QuerySet
from django.db.models.fields.json import KeyTransform

from dbops.engine.availability.periods import longest_gap
from dbops.engine.availability.rebuild_intervals import (
    RebuildIntervals,
    StepInterval,
    occupied,
    phases,
)
from dbops.engine.availability.record import (
    Cause,
    ClusterRecord,
    OccupiedPeriod,
    PlannedMaintenance,
    StatePeriod,
    UsableBackup,
)
from dbops.engine.methods import blocked_by, method_named
from dbops.engine.phrases import phrase
from dbops.engine.schedule.calendar import Interval
from dbops.engine.schedule.conflicts import Activity, MethodTraits, of_backup
from dbops.engine.states import BackupMethod, Role, RunOrigin, RunStatus, Status
from dbops.models import BackupRun, Cluster, Instance, InstancePeriod, Maintenance, Rebuild, RebuildStep

Expected = tuple[str, Role, Interval]


def records(
    only: Collection[int], within: Interval, now: datetime, *, method: MethodTraits | None = None
) -> dict[int, ClusterRecord]:
    """Return the records of clusters for an interval, by primary key, with eleven queries.

    Args:
        method: the only method to consider; complete backups are omitted if the method reads none.
        within: the interval; records outside of it are omitted, and nothing after ``now`` is known.
    """
    known = Interval(within.start, max(within.start, min(within.end, now)))
    seen, expected = _seen(only, known, now)
    runs = _runs(only, known, now)
    backups = {} if method and not method.reads.backup else _backups(only, known, now)
    lives = _lives(only, known)
    planned = _planned(only, known)
    targets = dict(Cluster.objects.filter(pk__in=only).order_by().values_list("pk", "wanted_replicas"))
    found: dict[int, ClusterRecord] = {}
    for key in only:
        uses = [*runs[key], *occupied(lives[key], now, blocked_by(Activity.SOURCE_READ))]
        found[key] = ClusterRecord(
            seen=tuple(seen[key]),
            expected=tuple(expected[key]),
            occupied=tuple(uses),
            phases=tuple(phases(lives[key], uses, now)),
            planned=tuple(planned[key]),
            backups=tuple(backups.get(key, ())),
            wanted=targets.get(key),
        )
    return found


def _meets(rows: QuerySet[Any], within: Interval, start: str, end: str) -> QuerySet[Any]:
    return rows.filter(_met(within, start, end))


def _met(within: Interval, start: str, end: str) -> Q:
    return (Q(**{f"{end}__gt": within.start}) | Q(**{end: None})) & Q(**{f"{start}__lt": within.end})


def _interval(start: datetime, end: datetime | None, unknown: datetime) -> Interval:
    return Interval(start, max(start, end or unknown))


def _seen(
    only: Collection[int], within: Interval, now: datetime
) -> tuple[dict[int, list[StatePeriod]], dict[int, list[Expected]]]:
    """Return the observed periods of instances, and their times as cluster members."""
    rows = InstancePeriod.objects.filter(cluster__in=only)
    # Also read the last earlier one: it has the role of an instance without probes.
    before = rows.filter(started_at__lt=within.start).order_by().values("cluster", "name").annotate(newest=Max("pk"))
    wanted = _met(within, "started_at", "ended_at") | Q(pk__in=before.values("newest"))
    met = rows.filter(wanted).order_by("name", "started_at", "pk")
    seen: dict[int, list[StatePeriod]] = defaultdict(list)
    turns: dict[tuple[int, str], list[tuple[datetime, Role]]] = defaultdict(list)
    for key, name, role, state, start, end, last in met.annotate(last=F("instance__state__observed_at")).values_list(
        "cluster", "name", "role", "state", "started_at", "ended_at", "last"
    ):
        seen[key].append(StatePeriod(name, Role(role), state, _interval(start, end, _known_until(last or start, now))))
        turns[key, name].append((start, Role(role)))
    expected: dict[int, list[Expected]] = defaultdict(list)
    for (key, name), (first, until, role) in _memberships(only, now).items():
        expected[key] += _roles(name, Interval(first, max(first, until)), role, turns[key, name])
    return seen, expected


def _known_until(last_seen_at: datetime, now: datetime) -> datetime:
    """Return the end of a current period: now, or the last probe if the next one is overdue."""
    return now if now - last_seen_at <= longest_gap(settings.PROBE_INTERVAL_SECONDS) else last_seen_at


def _memberships(only: Collection[int], now: datetime) -> dict[tuple[int, str], tuple[datetime, datetime, Role]]:
    """Return when each instance joined and left its cluster, and its current role. Two queries."""
    there = Instance.objects.filter(cluster__in=only).values_list("cluster", "name", "role")
    still = {(key, name): Role(role) for key, name, role in there}
    rows = InstancePeriod.objects.filter(cluster__in=only).order_by().values_list("cluster", "name")
    return {
        (key, name): (first, now if (key, name) in still else newest or first, still.get((key, name), Role.REPLICA))
        for key, name, first, newest in rows.annotate(first=Min("started_at"), newest=Max("ended_at"))
    }


def _roles(name: str, whole: Interval, role: Role, turns: list[tuple[datetime, Role]]) -> Iterable[Expected]:
    """Return the roles of an instance in order: each lasts until another one is observed."""
    starts = [whole.start, *(start for start, _ in turns[1:])]
    ends = [*starts[1:], whole.end]
    for start, end, (_, held) in zip(starts, ends, turns or [(whole.start, role)], strict=True):
        if start < end:
            yield name, held, Interval(start, end)


def _runs(only: Collection[int], within: Interval, now: datetime) -> dict[int, list[OccupiedPeriod]]:
    """Return the instances used by backups."""
    rows = BackupRun.objects.filter(instance__cluster__in=only).exclude(started_at=None)
    values = (
        "instance__cluster",
        "instance__name",
        "pk",
        "method",
        "origin",
        "schedule__name",
        "started_at",
        "finished_at",
    )
    uses: dict[int, list[OccupiedPeriod]] = defaultdict(list)
    met = _meets(rows, within, "started_at", "finished_at").order_by("started_at", "pk")
    for key, name, pk, method, origin, schedule, start, end in met.values_list(*values):
        blocks, took = blocked_methods(method, origin == RunOrigin.MANAGED), _interval(start, end, now)
        uses[key].append(
            OccupiedPeriod(name, took, Cause.BACKUP, phrase("run {number}", number=pk), blocks, schedule=schedule or "")
        )
    return uses


def _backups(only: Collection[int], within: Interval, now: datetime) -> dict[int, list[UsableBackup]]:
    """Return complete, readable backups."""
    rows = BackupRun.objects.filter(instance__cluster__in=only)
    complete = rows.filter(status=RunStatus.SUCCEEDED, origin=RunOrigin.MANAGED)
    usable: dict[int, list[UsableBackup]] = defaultdict(list)
    there = _meets(complete, within, "finished_at", "removed_at").order_by("finished_at", "pk")
    for key, method, start, end in there.values_list("instance__cluster", "method", "finished_at", "removed_at"):
        usable[key].append(UsableBackup(BackupMethod(method), _interval(start, end, now)))
    return usable


@lru_cache(maxsize=8)
def blocked_methods(method: str, is_managed: bool) -> frozenset[str]:
    """Return the methods whose rebuilds cannot start while such a backup reads the source, by their conflicts."""
    work = of_backup(is_dump=method == BackupMethod.DUMP, is_managed=is_managed)
    return blocked_by(work)


def _lives(only: Collection[int], within: Interval) -> dict[int, list[RebuildIntervals]]:
    """Return the rebuilds of an interval and each target's previous one, whose failure can still matter. Three queries."""
    rows = Rebuild.objects.filter(target__cluster__in=only)
    met = _meets(rows, within, "requested_at", "finished_at")
    before = rows.filter(finished_at__lte=within.start).order_by().values("target").annotate(newest=Max("pk"))
    wanted = set(met.values_list("pk", flat=True)) | {row["newest"] for row in before}
    steps: dict[int, list[StepInterval]] = defaultdict(list)
    times = RebuildStep.objects.filter(rebuild__in=met).order_by("rebuild", "position")
    for pk, name, start, end in times.values_list("rebuild", "name", "started_at", "finished_at"):
        if start:
            steps[pk].append(StepInterval(name, start, end))
    found: dict[int, list[RebuildIntervals]] = defaultdict(list)
    values = (
        "target__cluster",
        "pk",
        "target__name",
        "source__name",
        "status",
        "requested_at",
        "started_at",
        "finished_at",
        "approval",
        "approval_at",
        "method",
    )
    chosen = Rebuild.objects.filter(pk__in=wanted).annotate(pauses=KeyTransform("pause_source", "plan")).order_by("pk")
    for key, pk, target, source, status, asked, start, end, approval, decided, method, pauses in chosen.values_list(
        *values, "pauses"
    ):
        life = RebuildIntervals(
            number=pk,
            target=target,
            source=source,
            status=Status(status),
            requested_at=asked,
            started_at=start,
            finished_at=end,
            pauses=bool(pauses),
            steps=tuple(steps[pk]),
            needs_approval=bool(approval),
            decided_at=decided,
            reads_source=method_named(method).reads_source,
        )
        found[key].append(life)
    return found


def _planned(only: Collection[int], within: Interval) -> dict[int, list[PlannedMaintenance]]:
    found: dict[int, list[PlannedMaintenance]] = defaultdict(list)
    rows = _meets(Maintenance.objects.filter(cluster__in=only), within, "starts_at", "ends_at")
    for row in rows.order_by("starts_at", "pk"):
        interval = _interval(row.starts_at, row.ends_at, within.end)
        found[row.cluster_id].append(
            PlannedMaintenance(f"maintenance {row.pk}", interval, row.created_by, row.reason, bool(row.marked_at))
        )
    return found
