"""Compute the limits of clusters and store them: a fit of each series would take a page too long."""

import logging
import time
from datetime import datetime

from celery.exceptions import SoftTimeLimitExceeded
from django.db.models import Q

from dbops.database.errors import AWAY
from dbops.lifecycle.capacity_forecasts import EVERY, put_off, store_limits
from dbops.loaders.capacity import limits_now
from dbops.models import CapacityForecast, Cluster

log = logging.getLogger(__name__)

CLUSTERS = 50


def forecast_due(now: datetime, *, seconds: float = 20.0) -> int:
    """Compute and store the limits of clusters whose forecast is due. Return their number. A fault in one stops no other.

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
        try:
            done += store_limits(row, limits_now(row.cluster, now), now)
        except (SoftTimeLimitExceeded, *AWAY):
            raise
        except Exception:
            log.exception("capacity forecast of %s", row.cluster.name)
            put_off(row, now)
    return done
