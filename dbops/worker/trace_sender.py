"""Send the traces of finished rebuilds to a collector, if there is one."""

import logging
from datetime import timedelta

from django.conf import settings

from dbops import __version__
from dbops.database import clock
from dbops.drivers.traces import send_traces
from dbops.engine.errors import DbopsError
from dbops.engine.rebuilds.trace import Trace, TracedRebuild, TracedStep, trace_of
from dbops.engine.states import FINAL, Status, StepState
from dbops.lifecycle import rebuild_traces
from dbops.models import Rebuild

log = logging.getLogger(__name__)
#: A collector that is away for longer misses some: it refuses old spans itself.
KEEP_TRYING = timedelta(days=1)
MOST_AT_ONCE = 20


def send_due() -> int:
    """Send the traces that the collector lacks, oldest first. Return their number."""
    now = clock.now()
    since = now - KEEP_TRYING
    rows = Rebuild.objects.filter(status__in=FINAL, finished_at__gte=since, traced_at=None)
    rebuilds = rows.select_related("target__cluster", "source", "requested_by").order_by("finished_at")[:MOST_AT_ONCE]
    found = list(rebuilds.prefetch_related("steps"))
    if not found:
        return 0
    try:
        send_traces([_trace(rebuild) for rebuild in found], settings.TRACES_URL, version=__version__)
    except DbopsError as error:
        log.warning("traces of rebuilds: %s", error)
        return 0
    rebuild_traces.mark_traced([rebuild.pk for rebuild in found], now)
    return len(found)


def _trace(rebuild: Rebuild) -> Trace:
    assert rebuild.finished_at is not None  # noqa: S101 - the filter
    code = str(rebuild.error.get("code", ""))
    return trace_of(
        TracedRebuild(
            uid=rebuild.uid,
            requested_at=rebuild.requested_at,
            started_at=rebuild.started_at,
            finished_at=rebuild.finished_at,
            attributes={
                "dbops.rebuild.id": rebuild.pk,
                "dbops.rebuild.method": rebuild.method,
                "dbops.rebuild.status": rebuild.status,
                "dbops.cluster": rebuild.target.cluster.name,
                "dbops.target": rebuild.target.name,
                "dbops.source": rebuild.source.name,
                "dbops.requested_by": rebuild.requested_by.get_username(),
            },
            steps=tuple(
                TracedStep(
                    name=step.name,
                    state=step.state,
                    started_at=step.started_at,
                    finished_at=step.finished_at,
                    has_failed=step.state == StepState.FAILED,
                )
                for step in rebuild.steps.all()
            ),
            error=(code or rebuild.status) if rebuild.status == Status.FAILED else "",
        )
    )
