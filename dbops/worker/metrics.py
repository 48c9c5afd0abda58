"""Take the samples for a rebuild's charts at a bounded rate, from values that the driver has already read."""

import logging
import time
from datetime import datetime

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings

from dbops.database import clock
from dbops.engine.rebuilds.metrics import Figures, number_at
from dbops.lifecycle import metrics
from dbops.models import InstanceState, Rebuild

log = logging.getLogger(__name__)

#: Seconds before the next attempt after a failed write.
REST_SECONDS = 60.0


class Sampler:
    """One driver's samples. A failed sample is logged by the worker and affects nothing else."""

    def __init__(self, rebuild: Rebuild) -> None:
        self._rebuild = rebuild
        self._last = -1
        self._rests_until = 0.0

    def take(self, step: str, figures: Figures) -> None:
        """Write a sample if one is due."""
        started = self._rebuild.started_at
        if started is None or time.monotonic() < self._rests_until:
            return
        now = clock.now()
        number = number_at((now - started).total_seconds())
        if number <= self._last:
            return
        self._last = number
        try:
            lag = self._source_lag(now)
            whole = Figures(figures.bytes, figures.disk_read_bytes, figures.disk_written_bytes, lag)
            metrics.write_sample(self._rebuild, number=number, at=now, step=step, figures=whole)
        except SoftTimeLimitExceeded:
            raise
        except Exception:
            log.exception("rebuild %s: a sample was not written", self._rebuild.pk)
            self._rests_until = time.monotonic() + REST_SECONDS

    def _source_lag(self, now: datetime) -> float | None:
        """Return the lag of the source from its last probe, ``None`` if too old or unknown. One query."""
        state = (
            InstanceState.objects.filter(instance=self._rebuild.source_id).only("observed_at", "lag_seconds").first()
        )
        age = state.age_seconds(now) if state else None
        if state is None or age is None or age > settings.FACTS_MAX_AGE_SECONDS:
            return None
        return state.lag_seconds
