"""What a probe stores when something goes wrong."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from dbops.engine.facts.instance import InstanceFacts
from dbops.engine.facts.stored_data import StoredData
from dbops.engine.states import RunStatus, Status
from dbops.models import Instance, InstanceState
from dbops.worker import prober
from tests.app import rows
from tests.app.comparison_rows import made_comparison
from tests.app.factories import make_rebuild

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


@pytest.mark.parametrize(("seconds", "status", "stored"), [(1, "running", 0), (60, "running", 1), (1, "succeeded", 1)])
def test_moment_in_which_a_row_comparison_stops_replication_is_no_state(
    monkeypatch: pytest.MonkeyPatch, seconds: int, status: str, stored: int
) -> None:
    fleet = rows.make_fleet()
    rebuild = make_rebuild(target=fleet["replica-1"], source=fleet["backup-1"], status=Status.SUCCEEDED)
    made_comparison(rebuild, RunStatus(status), paused_at=timezone.now() - timedelta(seconds=seconds))
    known = rows.facts_of("replica-1", timezone.now())
    assert known.server is not None
    stopped = tuple(replace(channel, sql_running="No") for channel in known.server.replication)
    found = replace(known, observed_at=timezone.now(), server=replace(known.server, replication=stopped))
    monkeypatch.setattr(prober, "read", lambda *_, **__: found)
    instance = Instance.objects.select_related("host", "cluster", "state__period").get(name="replica-1")
    assert prober.probe_all([instance]) == stored
    state = InstanceState.objects.get(instance=instance)
    assert bool(state.stopped) is bool(stored)
    if not stored:
        assert state.probe_due_at < timezone.now() + timedelta(seconds=5)


def test_probe_that_ends_after_a_newer_one_overwrites_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers probe at the same time. A plan made of the older reading would be refused as changed."""
    rows.make_fleet()
    now = timezone.now()
    instance = Instance.objects.select_related("host", "cluster", "state__period").get(name="replica-1")
    for age in (0, 5):
        found = rows.facts_of("replica-1", now - timedelta(seconds=age))
        monkeypatch.setattr(prober, "read", lambda *_, found=found, **__: found)
        assert prober.probe_all([instance]) == 1, "the row is not older than the request"
    assert InstanceState.objects.get(instance=instance).observed_at == rows.facts_of("replica-1", now).observed_at


@pytest.mark.parametrize("is_fresh_first", [True, False])
@pytest.mark.parametrize("fresh_age", [0, 5])
def test_data_that_was_read_last_is_kept_in_whichever_order_probes_end(
    monkeypatch: pytest.MonkeyPatch, is_fresh_first: bool, fresh_age: int
) -> None:
    """One probe reads the data; the other one repeats what was known before."""
    rows.make_fleet()
    now = timezone.now()
    instance = Instance.objects.select_related("host", "cluster", "state__period").get(name="replica-1")
    before = now - timedelta(minutes=2)
    known = rows.facts_of("replica-1", now)
    assert known.server is not None
    old, new = StoredData(plugin_dir="/old"), StoredData(plugin_dir="/new")
    read_at = now - timedelta(seconds=fresh_age)
    seen = replace(
        known.server, stored=new, foreign_engines={"MEMORY": 1}, innodb_bytes=7, gtid_purged="0-1-7", uptime_seconds=1
    )
    fresh = replace(known, observed_at=read_at, stored_at=read_at, server=seen)
    other_at = now - timedelta(seconds=5 - fresh_age)
    ordinary = replace(known, observed_at=other_at, stored_at=before, server=replace(known.server, stored=old))
    InstanceState.objects.filter(instance=instance).update(observed_at=before, record={})
    for found in (fresh, ordinary) if is_fresh_first else (ordinary, fresh):
        monkeypatch.setattr(prober, "read", lambda *_, found=found, **__: found)
        assert prober.probe_all([instance]) == 1
    facts = InstanceState.objects.get(instance=instance).facts()
    assert facts is not None
    assert facts.server is not None
    assert (facts.observed_at, facts.stored_at) == (now, read_at)
    uptime = seen.uptime_seconds if fresh_age == 0 else known.server.uptime_seconds
    assert facts.server == replace(seen, uptime_seconds=uptime)


def test_probe_is_stored_after_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    rows.make_fleet()
    ahead = rows.facts_of("replica-1", timezone.now() + timedelta(hours=1))
    InstanceState.objects.update(**InstanceState.columns(ahead))
    instance = Instance.objects.select_related("host", "cluster", "state__period").get(name="replica-1")
    found = rows.facts_of("replica-1", timezone.now())
    monkeypatch.setattr(prober, "read", lambda *_, **__: found)
    assert prober.probe_all([instance]) == 1
    assert InstanceState.objects.get(instance=instance).observed_at == found.observed_at
