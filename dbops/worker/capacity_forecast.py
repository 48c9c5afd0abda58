"""Compute the walls of clusters and store them: a fit of each series would take a page too long."""

import time
from datetime import datetime, timedelta

from django.db.models import Q

from dbops.engine.capacity.cluster import walls_of
from dbops.engine.capacity.walls import WallState
from dbops.engine.facts.instance import to_record
from dbops.loaders.capacity import histories_of, rebuild_forecast_of, thresholds_of
from dbops.models import CapacityForecast, Cluster
from dbops.security.redaction import without_nul

#: A forecast uses one value a day.
EVERY = timedelta(hours=6)
CLUSTERS = 50


def forecast_due(now: datetime, *, seconds: float = 20.0) -> int:
    """Compute and store the walls of clusters whose forecast is due. Return their number.

    Args:
        seconds: no new work starts after this time; the next call continues.
    """
    new = Cluster.objects.filter(capacity_forecast=None).order_by().values_list("pk", flat=True)
    rows = [CapacityForecast(cluster_id=key, due_at=now) for key in new]
    CapacityForecast.objects.bulk_create(rows, ignore_conflicts=True)
    # a time beyond the interval was written before the clock was set back
    due = CapacityForecast.objects.filter(Q(due_at__lte=now) | Q(due_at__gt=now + EVERY)).order_by("due_at")
    began, done = time.monotonic(), 0
    for row in due.select_related("cluster")[:CLUSTERS]:
        if time.monotonic() - began >= seconds:
            break
        done += _forecast(row, now)
    return done


def _forecast(row: CapacityForecast, now: datetime) -> int:
    histories = histories_of(row.cluster, now)
    walls = walls_of(histories, thresholds_of(row.cluster_id), rebuild_forecast_of(row.cluster, histories))
    soonest = next((wall for wall in walls if wall.is_flagged), None)
    first_at = now if soonest and soonest.state is WallState.REACHED else soonest.first if soonest else None
    # unless a threshold changed since: then it is due again
    same = CapacityForecast.objects.filter(pk=row.pk, due_at=row.due_at)
    return same.update(
        computed_at=now,
        due_at=now + EVERY,
        walls=without_nul([to_record(wall) for wall in walls]),
        soonest=without_nul(to_record(soonest)) if soonest else None,
        first_at=first_at,
    )
