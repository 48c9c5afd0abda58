"""Remove what ended load tests left on hosts that did not answer then."""

import logging
import time
from contextlib import ExitStack

from dbops.database import clock
from dbops.engine.errors import DbopsError
from dbops.engine.states import RUN_FINAL
from dbops.lifecycle import load_tests
from dbops.models import LoadTest
from dbops.worker.load_test_hosts import LoadTestHosts

log = logging.getLogger(__name__)


def sweep(*, seconds: float) -> int:
    """Remove leftovers of load tests, on hosts where none runs, for about ``seconds``. Return how many are gone."""
    until, gone = time.monotonic() + seconds, 0
    running = LoadTest.objects.exclude(host_slot=None).values("host_slot")
    rows = LoadTest.objects.filter(has_leftovers=True, status__in=RUN_FINAL).exclude(host__in=running)
    for dead in rows.select_related("host", "source__host", "generator_host").order_by("pk"):
        if time.monotonic() > until:
            break
        try:
            with ExitStack() as stack:
                is_gone = LoadTestHosts(dead, stack).remove_files_of(
                    dead, f"sweep-{int(clock.now().timestamp()) // 3600}"
                )
        except DbopsError as error:
            log.warning("%s: its leftovers stay: %s", dead, error)
            continue
        if is_gone:
            load_tests.mark_removed(dead)
            gone += 1
    return gone
