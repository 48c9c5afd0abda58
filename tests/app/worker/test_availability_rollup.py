"""Days that are over are counted once and kept: pages tell the same with and without them, and what becomes known later counts."""

import random
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from dbops import lifecycle
from dbops.engine.availability.days import RULES, SumKey, amounts
from dbops.engine.availability.record import Cause
from dbops.engine.availability.shortages import Gap
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import Status
from dbops.lifecycle import availability_rollups, instance_periods
from dbops.loaders.availability_records import records
from dbops.models import (
    Cluster,
    CountedDays,
    GapDay,
    Instance,
    InstancePeriod,
    InstanceState,
    Maintenance,
    Rebuild,
    RebuildStep,
)
from dbops.queries.availability.sums import totals
from dbops.worker import availability_rollup
from tests.app.factories import make_period, make_rebuild, make_run, make_trio
from tests.engine.by_name import parts

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 20, 13, 30, 17, tzinfo=UTC)
FIRST = NOW - timedelta(days=20)


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def judged(key: int, period: Interval, now: datetime = NOW) -> Any:
    return amounts(parts(records([key], period, now)[key], period, method="xbstream"))


def live(instance: Instance, dice: random.Random) -> None:
    """Three weeks of one instance: it changes about once a day, with times without probes."""
    start = FIRST + timedelta(hours=dice.uniform(0, 30))
    row = None
    while start < NOW - timedelta(hours=1):
        end = min(start + timedelta(seconds=dice.randrange(60, 200_000)), NOW)
        row = make_period(
            instance, dice.choice(["healthy", "healthy", "healthy", "lagging", "unreachable"]), start, end
        )
        start = end + timedelta(seconds=dice.choice([0, 0, 0, 5000]))
    if row and dice.random() < 0.8:
        InstancePeriod.objects.filter(pk=row.pk).update(ended_at=None)
        InstanceState.objects.filter(instance=instance).update(period=row, observed_at=ago(dice.choice([0, 0, 30])))


def history(name: str, dice: random.Random) -> Cluster:
    primary, backup, replica = make_trio(name)
    for instance in (primary, backup, replica):
        live(instance, dice)
    for day in range(20):
        seconds = dice.choice([None, 3600.0, 30_000.0]) if day < 1 else dice.uniform(600, 90_000)
        make_run(backup, started_at=ago(24 * day + dice.uniform(1, 20)), seconds=seconds)
    # One after another, as a target has one at a time.
    for status, slot in ((Status.FAILED, 400), (Status.CANCELLED, 270), (Status.SUCCEEDED, 140)):
        asked = ago(slot - dice.uniform(0, 40))
        row = make_rebuild(target=replica, source=backup, status=status)
        started, finished = asked + timedelta(hours=2), asked + timedelta(hours=2 + dice.uniform(1, 30))
        Rebuild.objects.filter(pk=row.pk).update(requested_at=asked, started_at=started, finished_at=finished)
        RebuildStep.objects.filter(rebuild=row, name="stream").update(started_at=started, finished_at=finished)
    Maintenance.objects.create(
        cluster=primary.cluster, starts_at=ago(dice.uniform(50, 200)), ends_at=ago(30), reason="disks", created_by="o"
    )
    return primary.cluster


def stored() -> list[tuple[Any, ...]]:
    """What is kept, from the first fact on: before it there were no probes, however early counting began."""
    rows = GapDay.objects.filter(day__gte=FIRST.date()).order_by("day", "gap", "cause", "is_planned")
    return list(rows.values_list("day", "gap", "cause", "is_planned", "microseconds"))


@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_equal_with_and_without_counted_days(seed: int) -> None:
    dice = random.Random(seed)
    clusters = [history(f"c{number}", dice) for number in range(3)]
    keys = [cluster.pk for cluster in clusters]
    Cluster.objects.filter(pk=keys[0]).update(wanted_replicas=1)
    # Counting is at another day with each of them.
    availability_rollup.count_days(ago(dice.uniform(0, 300)))
    CountedDays.objects.filter(cluster=keys[1]).delete()
    GapDay.objects.filter(cluster=keys[1]).delete()
    availability_rollups.recount([keys[2]], ago(dice.uniform(24, 300)), NOW)
    for _ in range(6):
        end = NOW if dice.random() < 0.5 else ago(dice.uniform(0, 200))
        period = Interval(end - timedelta(seconds=dice.randrange(1, 3_000_000)), end)
        found = totals(keys, period, NOW)
        for key in keys:
            assert found[key] == judged(key, period), (key - keys[0], period)
        assert all(sum(found[key].values()) for key in keys) or period.seconds < 86400


def test_count_days_is_equal_day_by_day_or_at_once() -> None:
    cluster = history("shop", random.Random(3))
    for day in range(25, 0, -1):
        availability_rollup.count_days(ago(24 * day))
    availability_rollup.count_days(NOW)
    one = stored()
    availability_rollups.recount([cluster.pk], None, NOW)
    assert not GapDay.objects.exists()
    availability_rollup.count_days(NOW)
    other = stored()
    assert one == other
    assert CountedDays.objects.get().until == NOW.date()


def test_count_days_omits_today_and_is_idempotent(django_assert_num_queries: Any) -> None:
    history("shop", random.Random(4))
    assert availability_rollup.count_days(NOW) == 1
    assert not GapDay.objects.filter(day__gte=NOW.date()).exists()
    with django_assert_num_queries(3):
        assert availability_rollup.count_days(NOW) == 0


def test_count_days_keeps_nothing_when_the_past_changes(monkeypatch: Any) -> None:
    cluster = history("shop", random.Random(5))
    real = availability_rollup.records

    def change_in_between(*given: Any, **values: Any) -> Any:
        found = real(*given, **values)
        availability_rollups.recount([cluster.pk], ago(48), NOW)
        return found

    monkeypatch.setattr(availability_rollup, "records", change_in_between)
    assert availability_rollup.count_days(NOW) == 0
    assert not GapDay.objects.exists()
    monkeypatch.undo()
    assert availability_rollup.count_days(NOW) == 1


def test_count_days_recounts_after_a_rule_change() -> None:
    history("shop", random.Random(6))
    availability_rollup.count_days(NOW)
    CountedDays.objects.update(rules=RULES + 1)
    GapDay.objects.update(microseconds=1)
    availability_rollup.count_days(NOW)
    assert CountedDays.objects.get().rules == RULES
    assert not GapDay.objects.filter(microseconds=1).exists()


class TestThePastChanges:
    """Each of them moves back the day up to which it is counted; what is of today moves nothing."""

    @pytest.fixture
    def trio(self) -> tuple[Instance, Instance, Instance]:
        trio = make_trio()
        for instance in trio:
            row = make_period(instance, "healthy", FIRST)
            InstanceState.objects.filter(instance=instance).update(period=row, observed_at=NOW)
        availability_rollup.count_days(NOW)
        assert CountedDays.objects.get().until == NOW.date()
        return trio

    @pytest.fixture(autouse=True)
    def a_clock_that_stands(self, monkeypatch: Any) -> None:
        for module in ("external_runs", "instance_periods"):
            monkeypatch.setattr(f"dbops.lifecycle.{module}.clock.now", lambda: NOW)

    def until(self) -> date:
        return CountedDays.objects.get().until

    def test_late_end_of_a_run_recounts_its_days(self, trio: Any) -> None:
        run = make_run(trio[1], started_at=ago(100), origin="reported")
        availability_rollups.recount([run.instance.cluster_id], ago(100), NOW)
        availability_rollup.count_days(NOW)
        before = totals([trio[1].cluster_id], Interval(ago(120), NOW), NOW)[trio[1].cluster_id]
        blocked = SumKey(Gap.NOT_REBUILDABLE, Cause.BACKUP, False)
        assert before[blocked] == 100 * 3600 * 10**6
        lifecycle.external_runs.end_unknown(run, ago(97), "gone")
        assert self.until() == ago(97).date()
        after = totals([trio[1].cluster_id], Interval(ago(120), NOW), NOW)[trio[1].cluster_id]
        assert after[blocked] == 3 * 3600 * 10**6
        assert after == judged(trio[1].cluster_id, Interval(ago(120), NOW))

    def test_end_of_a_run_now_recounts_nothing(self, trio: Any) -> None:
        run = make_run(trio[1], started_at=ago(100), origin="reported")
        lifecycle.external_runs.end_unknown(run, NOW, "gone")
        assert self.until() == NOW.date()

    def test_removal_of_a_silent_instance_recounts_its_days(self, trio: Any) -> None:
        InstanceState.objects.filter(instance=trio[2]).update(observed_at=ago(80))
        instance_periods.end_periods(InstanceState.objects.filter(instance=trio[2]))
        assert self.until() == ago(80).date()

    def test_recount_before_the_first_fact_moves_the_mark(self, trio: Any) -> None:
        availability_rollups.recount([trio[0].cluster_id], FIRST - timedelta(days=9), NOW)
        mark = CountedDays.objects.get()
        assert mark.since == mark.until == (FIRST - timedelta(days=9)).date()

    def test_rename_of_an_instance_keeps_its_periods(self, trio: Any) -> None:
        trio[2].name = "replica-9"
        trio[2].save()
        instance_periods.rename_periods(trio[2])
        found = judged(trio[0].cluster_id, Interval(ago(100), NOW))
        assert found == {}
