"""Periods of instance states: a row for each change, none for unprobed time."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from dbops.engine.availability.periods import longest_gap
from dbops.engine.facts.instance import InstanceFacts
from dbops.engine.facts.summary import judge, summarize
from dbops.engine.states import Role
from dbops.lifecycle import instance_periods
from dbops.models import Instance, InstancePeriod, InstanceState
from dbops.operations import fleet
from tests.app.factories import make_facts, make_operator, make_trio, make_unreachable

pytestmark = pytest.mark.django_db
GAP = longest_gap(15)
T0 = timezone.now().replace(microsecond=0) - timedelta(hours=1)


@pytest.fixture
def replica() -> Instance:
    _, _, replica = make_trio()
    InstanceState.objects.filter(instance=replica).update(observed_at=None, period=None)
    return replica


def probed(instance: Instance, seconds: float, facts: InstanceFacts) -> bool:
    """Store what a probe found at a moment, as the prober does."""
    live = Instance.objects.select_related("cluster", "state__period").get(pk=instance.pk)
    moment = T0 + timedelta(seconds=seconds)
    InstanceState.objects.filter(instance=instance).update(observed_at=moment)
    return instance_periods.note_period(live, _at(facts, moment), gap=GAP)


def _at(facts: InstanceFacts, moment: datetime) -> InstanceFacts:
    return replace(facts, observed_at=moment)


def periods(instance: Instance) -> list[tuple[str, float, float | None]]:
    return [
        (
            row.state,
            (row.started_at - T0).total_seconds(),
            (row.ended_at - T0).total_seconds() if row.ended_at else None,
        )
        for row in InstancePeriod.objects.filter(name=instance.name)
    ]


def test_periods_have_a_row_for_each_change_only(replica: Instance) -> None:
    well, away = make_facts(), make_unreachable()
    word = judge(summarize(well), Role.REPLICA, is_fresh=True)[0]
    for seconds in (0, 15, 30):
        probed(replica, seconds, well)
    for seconds in (45, 60):
        probed(replica, seconds, away)
    probed(replica, 75, well)
    assert periods(replica) == [(word, 0, 45), ("unreachable", 45, 75), (word, 75, None)]
    state = InstanceState.objects.select_related("period").get(instance=replica)
    assert state.period is not None
    assert state.period.ended_at is None


def test_periods_omit_unprobed_time(replica: Instance) -> None:
    well = make_facts()
    word = judge(summarize(well), Role.REPLICA, is_fresh=True)[0]
    probed(replica, 0, well)
    probed(replica, 15, well)
    probed(replica, 900, well)
    assert periods(replica) == [(word, 0, 15), (word, 900, None)]


def test_second_of_two_concurrent_probes_changes_nothing(replica: Instance) -> None:
    probed(replica, 0, make_facts())
    late = Instance.objects.select_related("cluster", "state__period").get(pk=replica.pk)
    away = make_unreachable()
    assert probed(replica, 15, away)
    assert not instance_periods.note_period(late, _at(away, T0 + timedelta(seconds=16)), gap=GAP)
    assert [state for state, _, _ in periods(replica)][1:] == ["unreachable"]
    assert InstancePeriod.objects.filter(ended_at=None, name=replica.name).count() == 1


def test_periods_restart_when_the_address_changes(replica: Instance) -> None:
    well = make_facts()
    probed(replica, 0, well)
    probed(replica, 15, well)
    fleet.save_instance(actor=make_operator(), instance=replica, values={"datadir": "/srv/other"})
    assert periods(replica)[0][2] == 15
    probed(replica, 30, well)
    assert [(start, end) for _, start, end in periods(replica)] == [(0, 15), (30, None)]


def test_periods_remain_when_the_instance_is_deleted(replica: Instance) -> None:
    probed(replica, 0, make_facts())
    probed(replica, 15, make_facts())
    fleet.delete(actor=make_operator(), row=replica)
    [row] = InstancePeriod.objects.filter(name=replica.name)
    assert row.instance_id is None
    assert row.ended_at == T0 + timedelta(seconds=15)
