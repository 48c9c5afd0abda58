"""Samples are written beside a rebuild: at a bounded rate, once for each number, and never in its way."""

from datetime import timedelta
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.rebuilds.metrics import Figures
from dbops.lifecycle import metrics
from dbops.models import InstanceState, Rebuild, RebuildSample
from dbops.worker.metrics import Sampler
from tests.app.factories import make_channel, make_facts, make_rebuild, make_trio, set_facts

pytestmark = pytest.mark.django_db


@pytest.fixture
def rebuild() -> Rebuild:
    _, backup, replica = make_trio()
    set_facts(backup, make_facts(replication=(make_channel(lag_seconds=7.0),)))
    return make_rebuild(target=replica, source=backup)


def test_sample_has_counters_and_source_lag(
    rebuild: Rebuild, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    sampler = Sampler(rebuild)
    with django_assert_num_queries(4):  # the source's state; the row, in a savepoint of its own
        sampler.take("stream", Figures(bytes=5, disk_written_bytes=4))
    row = RebuildSample.objects.get()
    assert (row.number, row.step, row.bytes, row.disk_read_bytes, row.disk_written_bytes) == (300, "stream", 5, None, 4)
    assert row.source_lag_seconds == 7.0
    with django_assert_num_queries(0):
        sampler.take("stream", Figures(bytes=6))


def test_two_drivers_write_one_sample(rebuild: Rebuild) -> None:
    for count in (5, 6):
        metrics.write_sample(rebuild, number=9, at=timezone.now(), step="stream", figures=Figures(bytes=count))
    assert RebuildSample.objects.get().bytes == 5


def test_sampler_ignores_an_old_lag(rebuild: Rebuild) -> None:
    InstanceState.objects.update(observed_at=timezone.now() - timedelta(hours=1))
    Sampler(rebuild).take("stream", Figures())
    assert RebuildSample.objects.get().source_lag_seconds is None


def test_sampler_pauses_after_a_failed_write(rebuild: Rebuild, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def broken(*_: Any, **__: Any) -> None:
        calls.append(1)
        raise DatabaseError("out of range")

    monkeypatch.setattr(metrics, "write_sample", broken)
    sampler = Sampler(rebuild)
    sampler.take("stream", Figures())
    rebuild.started_at = timezone.now() - timedelta(hours=1)
    sampler.take("stream", Figures())
    assert calls == [1]


def test_sampler_passes_the_time_limit_on(rebuild: Rebuild, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: Any, **__: Any) -> None:
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(metrics, "write_sample", late)
    with pytest.raises(SoftTimeLimitExceeded):
        Sampler(rebuild).take("stream", Figures())


def test_sampler_takes_nothing_before_the_start(rebuild: Rebuild) -> None:
    rebuild.started_at = None
    Sampler(rebuild).take("stream", Figures())
    assert not RebuildSample.objects.exists()
