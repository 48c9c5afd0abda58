"""Start queued load tests, one at a time on each host, while dbops does nothing else there."""

from dbops.engine.states import RunStatus
from dbops.lifecycle import load_tests
from dbops.loaders.host_usage import why_at_work
from dbops.models import LoadTest


def start_what_can() -> list[int]:
    """Start the oldest queued load test of each idle host. Return their ids.

    A load test waits for every job of dbops on its host, on that of its load generator and, for a backup that it reads elsewhere, on that
    host. No job waits for a load test but a restore test on one of the first two.
    """
    begun = []
    rows = LoadTest.objects.filter(status=RunStatus.QUEUED).select_related("host", "source__host", "generator_host")
    rows = rows.order_by("pk")
    for load_test in rows.defer("request", "plan"):
        why = why_at_work(load_test.host)
        if not why and load_test.generator_host:
            why = why_at_work(load_test.generator_host)
        if not why and load_test.run_id and load_test.source.host_id != load_test.host_id:
            why = why_at_work(load_test.source.host)
        if why:
            load_tests.delay(load_test, why)
        elif load_tests.start(load_test):
            begun.append(load_test.pk)
    return begun
