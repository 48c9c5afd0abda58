"""Read load tests."""

from django.db.models import QuerySet

from dbops.engine.facts.instance import from_record
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.models import LoadTest


def find_load_test(load_test_id: int) -> LoadTest | None:
    """Return one load test with its related rows, or ``None``, without the statements of its request. One query."""
    rows = LoadTest.objects.select_related("run", "source", "host", "generator_host", "cluster").defer(
        "request", "checkpoint"
    )
    return rows.filter(pk=load_test_id).first()


def load_tests_of(cluster_id: int) -> QuerySet[LoadTest]:
    """Return the load tests of a cluster, newest first, without what only their own page shows."""
    rows = LoadTest.objects.filter(cluster=cluster_id).select_related("source", "host", "run")
    return rows.defer("request", "plan", "checkpoint")


def plan_of(load_test: LoadTest) -> LoadTestPlan:
    """Return the plan that was confirmed."""
    return from_record(LoadTestPlan, load_test.plan)
