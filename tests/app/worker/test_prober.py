"""What a probe stores when something goes wrong."""

from datetime import timedelta

import pytest
from django.utils import timezone

from dbops.engine.facts.instance import InstanceFacts
from dbops.models import Instance, InstanceState
from dbops.worker import prober
from tests.app import rows

pytestmark = pytest.mark.django_db


def test_fault_in_a_probe_is_stored_as_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    rows.make_fleet()
    InstanceState.objects.update(observed_at=timezone.now() - timedelta(hours=1))

    def fail(_: Instance, **__: bool) -> InstanceFacts:
        raise UnicodeEncodeError("latin-1", "secret€", 6, 7, "ordinal not in range")

    monkeypatch.setattr(prober, "read", fail)
    instance = Instance.objects.select_related("host", "cluster", "state__period").get(name="replica-1")
    assert prober.probe_all([instance]) == 1
    facts = InstanceState.objects.get(instance=instance).facts()
    assert facts is not None
    assert facts.host_problem is not None
    assert (facts.host, facts.server, facts.host_problem.code) == (None, None, "probe.fault")
    assert "secret" not in facts.host_problem.text
    assert timezone.now() - facts.observed_at < timedelta(minutes=1)
