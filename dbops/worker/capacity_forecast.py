"""Compute the walls of clusters and store them: a fit of each series would take a page too long."""

import time
from datetime import datetime

from django.db.models import Q

from dbops.lifecycle.capacity_forecasts import EVERY, store_walls
from dbops.loaders.capacity import walls_now
from dbops.models import CapacityForecast, Cluster

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
        done += store_walls(row, walls_now(row.cluster, now), now)
    return done
