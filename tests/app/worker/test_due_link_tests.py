"""Automatic stream tests: each pair of hosts once, one at a time, never beside other work."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dbops.models import AuditEntry, ConnectionTest, Hold
from dbops.worker import due_link_tests
from tests.app.factories import make_facts, make_host, make_instance, make_rebuild, make_trio, set_facts

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _every_30_days(settings: Any) -> None:
    settings.LINK_TEST_INTERVAL_SECONDS = 30 * 86400


def only() -> ConnectionTest:
    return ConnectionTest.objects.get()


def ended(row: ConnectionTest, status: str = "passed", ago: timedelta = DAY, **result: Any) -> None:
    offered = next(ciphers for source, target, ciphers in due_link_tests._pairs() if target == row.host)
    given = {"rates": {"aes128-ctr": 1.0}, "ciphers_offered": offered} | result
    ConnectionTest.objects.filter(pk=row.pk).update(
        status=status, slot=None, finished_at=timezone.now() - ago, result=given
    )


def test_queue_due_requests_an_unmeasured_pair_and_logs_it() -> None:
    _, source, target = make_trio()
    assert due_link_tests.queue_due(timezone.now()) == only().pk
    assert (only().source_host, only().host, only().requested_by) == (source.host, target.host, "dbops")
    assert AuditEntry.objects.get(action="test.requested").actor == "dbops"


def test_queue_due_measures_one_pair_at_a_time() -> None:
    _, _, first = make_trio()
    second = make_instance("replica-2", cluster=first.cluster, host=make_host("db-22"), role="replica")
    set_facts(second, make_facts())
    asked = due_link_tests.queue_due(timezone.now())
    assert due_link_tests.queue_due(timezone.now()) is None
    ended(ConnectionTest.objects.get(pk=asked))
    other = ConnectionTest.objects.get(pk=due_link_tests.queue_due(timezone.now()))
    assert {row.host for row in ConnectionTest.objects.all()} == {first.host, second.host}
    ended(other)
    assert due_link_tests.queue_due(timezone.now()) is None


@pytest.mark.parametrize(
    ("how", "is_due"),
    [
        ({}, False),
        ({"ago": 29 * DAY}, False),
        ({"ago": 31 * DAY}, True),
        ({"ciphers_offered": "aes128-ctr"}, True),
        ({"rates": {}}, True),
        ({"status": "failed", "ago": DAY / 2}, False),
        ({"status": "failed", "ago": 2 * DAY}, True),
        ({"status": "unknown", "ago": DAY / 2}, False),
    ],
)
def test_queue_due_repeats_a_measurement_after_its_interval(how: dict[str, Any], is_due: bool) -> None:
    make_trio()
    due_link_tests.queue_due(timezone.now())
    ended(only(), **how)
    assert (due_link_tests.queue_due(timezone.now()) is not None) is is_due


def test_queue_due_measures_nothing_beside_a_rebuild() -> None:
    _, source, target = make_trio()
    rebuild = make_rebuild(target=target, source=source)
    Hold.objects.create(instance=source, rebuild=rebuild, purpose="source", taken_at=timezone.now())
    assert due_link_tests.queue_due(timezone.now()) is None


def test_queue_due_is_off_when_the_interval_is_zero(settings: Any) -> None:
    make_trio()
    settings.LINK_TEST_INTERVAL_SECONDS = 0
    assert due_link_tests.queue_due(timezone.now()) is None


def test_queue_due_ignores_pairs_on_one_host_or_in_two_clusters() -> None:
    _, source, target = make_trio()
    target.host, target.datadir = source.host, "/srv/second"
    target.save()
    _, _, elsewhere = make_trio("search")
    due_link_tests.queue_due(timezone.now())
    assert only().host == elsewhere.host
