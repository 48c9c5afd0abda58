"""Read the durations of a cluster's past rebuilds, and its verified sources."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from django.db.models import F, QuerySet, Window
from django.db.models.functions import RowNumber

from dbops.engine.availability.rebuild_times import MeasuredRebuild, MethodTimes, rebuild_times
from dbops.engine.availability.verified_sources import VerifiedSource, oldest_first
from dbops.engine.methods import FOLLOW_UPS
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import REPLICAS, Role, Status, StepState
from dbops.models import Cluster, Instance, Rebuild, RebuildStep

#: Successful rebuilds that copied from a source. Follow-ups are excluded: they copy nothing, or only the rest.
COPIES = Rebuild.objects.filter(status=Status.SUCCEEDED, finished_at__isnull=False).exclude(method__in=FOLLOW_UPS)


class Last(NamedTuple):
    """The last ended row of an owner."""

    pk: int
    ended_at: datetime


def newest(rows: QuerySet, owner: str, keys: Collection[int]) -> dict[int, Last]:
    """Return the last ended row of each owner; ``owner`` is a column or a path to one. One query."""
    place = Window(RowNumber(), partition_by=F(owner), order_by=F("finished_at").desc())
    found = rows.filter(**{f"{owner}__in": keys}, finished_at__isnull=False).annotate(place=place).filter(place=1)
    return {key: Last(pk, ended_at) for key, pk, ended_at in found.order_by().values_list(owner, "pk", "finished_at")}


def times(cluster: Cluster, period: Interval) -> tuple[MethodTimes, ...]:
    """Return the durations of the cluster's rebuilds of the period and of the period before. Two queries."""
    before = Interval(period.start - (period.end - period.start), period.start)
    earlier, took = _took(cluster, before, period)
    return rebuild_times(took, earlier)


def _took(cluster: Cluster, *periods: Interval) -> list[list[MeasuredRebuild]]:
    first, last = periods[0].start, periods[-1].end
    rows = COPIES.filter(
        target__cluster=cluster, started_at__isnull=False, finished_at__gte=first, finished_at__lt=last
    )
    found = list(rows.order_by("finished_at").values_list("pk", "method", "started_at", "finished_at"))
    steps: dict[int, dict[str, float]] = {}
    done = RebuildStep.objects.filter(rebuild__in=[row[0] for row in found], state=StepState.DONE)
    times = done.order_by("rebuild", "position").values_list("rebuild", "title", "started_at", "finished_at")
    for rebuild, title, started_at, finished_at in times:
        if started_at and finished_at:
            steps.setdefault(rebuild, {})[title] = (finished_at - started_at).total_seconds()
    took: list[list[MeasuredRebuild]] = [[] for _ in periods]
    for pk, method, started_at, finished_at in found:
        for period, rebuilds in zip(periods, took, strict=True):
            if started_at and finished_at and period.start <= finished_at < period.end:
                rebuilds.append(MeasuredRebuild(method, (finished_at - started_at).total_seconds(), steps.get(pk, {})))
    return took


def verified_sources(cluster: Cluster) -> list[VerifiedSource]:
    """Return when each source of the cluster was last verified, the oldest first. Two queries."""
    rows = Instance.objects.filter(cluster=cluster, role__in=REPLICAS).order_by("name")
    instances = list(rows.values_list("pk", "name", "role"))
    backups = [one for one in instances if one[2] == Role.BACKUP]
    sources = {pk: name for pk, name, _ in backups or instances}
    given = newest(COPIES, "source", list(sources))
    return oldest_first([VerifiedSource(name, *given.get(key, ())) for key, name in sources.items()])
