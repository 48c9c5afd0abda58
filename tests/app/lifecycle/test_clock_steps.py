"""After a step back, what waits for a time of the future is due."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from dbops.engine.planning.checks.target import facts_are_fresh
from dbops.lifecycle import clock_steps, leases, topology_differences
from dbops.loaders.plan_inputs import plan_inputs_of
from dbops.models import InstanceState, Rebuild, ServerIdentity
from dbops.queries.fleet.cluster import cluster_row
from dbops.worker import prober
from tests.app import rows
from tests.app.factories import make_trio

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def step_back() -> None:
    now = timezone.now()
    clock_steps.note_step(now + HOUR, now)


def test_probes_are_due_after_a_step_back() -> None:
    make_trio()
    InstanceState.objects.update(probe_due_at=timezone.now() + HOUR)
    step_back()
    assert all(state.probe_due_at <= timezone.now() for state in InstanceState.objects.all())


def test_probe_far_ahead_is_due_without_a_noted_step() -> None:
    make_trio()
    InstanceState.objects.update(probe_due_at=timezone.now() + HOUR)
    assert len(prober._due_instances(timezone.now())) == 3


def test_lease_of_a_dead_driver_ends_and_that_of_a_living_one_stays() -> None:
    rebuild = rows.started_rebuild()
    ahead = timezone.now() + HOUR
    Rebuild.objects.update(lease_owner="dead", lease_until=ahead, next_tick_at=ahead)
    step_back()
    found = Rebuild.objects.get(pk=rebuild.pk)
    assert found.next_tick_at <= timezone.now()
    assert found.lease_until > timezone.now()
    later = timezone.now() + timedelta(seconds=settings.LEASE_SECONDS + 1)
    assert leases.due(Rebuild, later) == [rebuild.pk]


def test_facts_of_the_future_are_not_fresh() -> None:
    """On the cluster's page, in a plan, and for what dbops learns of a server."""
    _, source, target = make_trio()
    ServerIdentity.objects.all().delete()
    for state in InstanceState.objects.all():
        record = state.record | {"observed_at": (timezone.now() + HOUR).isoformat()}
        InstanceState.objects.filter(pk=state.pk).update(observed_at=timezone.now() + HOUR, record=record)
    assert {row.state for row in cluster_row(target.cluster).rows} == {"unknown"}
    inputs = plan_inputs_of(target, source)
    findings = list(facts_are_fresh(inputs))
    assert {found.severity.value for found in findings} == {"refusal"}
    topology_differences.note_differences({target.cluster_id})
    assert not ServerIdentity.objects.exists()
