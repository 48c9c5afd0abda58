"""The fence of a lease, which hosts compare with those that they have seen."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from dbops.lifecycle import leases, rebuild_driver
from dbops.models import ClockStep, Rebuild
from tests.app import rows

pytestmark = pytest.mark.django_db


def test_lease_shows_hosts_a_larger_token_after_an_older_database_was_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [timezone.now()]
    monkeypatch.setattr(leases, "clock", SimpleNamespace(now=lambda: clock[0]))
    rebuild = rows.started_rebuild()
    Rebuild.objects.update(started_at=clock[0])

    def token_after(seconds: float) -> int:
        clock[0] += timedelta(seconds=seconds)
        lease = rebuild_driver.take_lease(rebuild.pk)
        assert lease is not None
        leases.release_lease(lease, 0)
        return lease.rebuild.host_token

    tokens = [token_after(seconds) for seconds in (0, 15, 0, 0, 15)]
    assert tokens == sorted(set(tokens))
    Rebuild.objects.update(fence=1)
    assert token_after(1) > tokens[-1]
    clock[0] -= timedelta(hours=1)
    before = Rebuild.objects.get().host_token
    assert token_after(0) > before


def test_later_run_shows_a_larger_token_than_a_lease_of_an_earlier_one_a_day_later() -> None:
    start = timezone.now()
    a_day_later = leases.lowest_fence(start, start + timedelta(days=1))
    earlier = Rebuild(started_at=start, fence=a_day_later)
    later = Rebuild(started_at=start + timedelta(seconds=1), fence=1)
    assert later.host_token > earlier.host_token


def test_runs_after_a_step_back_show_larger_tokens_than_all_before() -> None:
    """A host refuses a smaller token than it has seen, and has seen those of the hour that comes a second time."""
    before = timezone.now()
    earlier = Rebuild(started_at=before - timedelta(seconds=1), fence=leases.lowest_fence(before, before))
    step = ClockStep(before=before, at=before - timedelta(hours=1))
    tokens = [earlier.host_token]
    for minutes in (1, 10, 20, 59):
        now = step.at + timedelta(minutes=minutes)
        tokens.append(Rebuild(started_at=now, fence=leases.lowest_fence(now, now, step)).host_token)
    for seconds in (2, 59):
        now = before + timedelta(seconds=seconds)
        tokens.append(Rebuild(started_at=now, fence=leases.lowest_fence(now, now, step)).host_token)
    now = before + timedelta(seconds=61)
    tokens.append(Rebuild(started_at=now, fence=leases.lowest_fence(now, now)).host_token)
    assert tokens == sorted(set(tokens))
