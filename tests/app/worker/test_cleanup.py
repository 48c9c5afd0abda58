"""After the end: a lost rebuild is given up, and what a silent host missed is swept once, later, and not under a newer run."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.states import FINAL, Level, Status, StepState
from dbops.lifecycle import cleanups, leases, rebuild_driver, starts
from dbops.lifecycle.cleanups import HOUR_SECONDS, LATER_SECONDS, SOON_SECONDS
from dbops.lifecycle.leases import LeaseLost
from dbops.lifecycle.rebuild_driver import RebuildUpdate, end_step, finish
from dbops.models import AuditEntry, Hold, Instance, Rebuild, RebuildEvent
from tests.app.factories import make_rebuild, make_trio
from tests.said import names

pytestmark = pytest.mark.django_db


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


def make_lost(trio: Any) -> Rebuild:
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=Status.LOST, next_tick_at=timezone.now())
    for instance, purpose in ((trio[1], "source"), (trio[2], "target")):
        Hold.objects.create(instance=instance, rebuild=rebuild, purpose=purpose, taken_at=timezone.now())
    return rebuild


def ended_with_a_sweep(trio: Any, *, ended_seconds_ago: float = 5.0, **values: Any) -> Rebuild:
    now = timezone.now()
    given = {"status": Status.FAILED, "sweep_due_at": now, "finished_at": now - timedelta(seconds=ended_seconds_ago)}
    return make_rebuild(target=trio[2], source=trio[1], **(given | values))


def fresh(rebuild: Rebuild) -> Rebuild:
    return Rebuild.objects.get(pk=rebuild.pk)


def test_force_fail_releases_locks_and_requests_a_sweep(trio: Any) -> None:
    rebuild = make_lost(trio)
    assert cleanups.force_fail(rebuild, "olga")
    found = fresh(rebuild)
    assert (found.status, found.pending_status, found.target_slot) == (Status.FAILED, Status.FAILED, None)
    assert found.finished_at is not None
    assert found.revision == rebuild.revision + 1
    assert not Hold.objects.exists()
    assert cleanups.sweeps_due(timezone.now()) == [rebuild.pk]
    assert rebuild_driver.due(timezone.now()) == []
    assert names(found.outcome, "olga", rebuild.target.name)
    assert RebuildEvent.objects.get().level == Level.ERROR
    assert AuditEntry.objects.get().action == "rebuild.failed"


def test_force_fail_ends_every_step(trio: Any) -> None:
    rebuild = make_lost(trio)
    for position, state in enumerate((StepState.DONE, StepState.SKIPPED, StepState.RUNNING)):
        rebuild.steps.filter(position=position).update(state=state)
    cleanups.force_fail(rebuild, "olga")
    states = list(rebuild.steps.values_list("state", flat=True))
    assert states[:4] == [StepState.DONE, StepState.SKIPPED, StepState.FAILED, StepState.SKIPPED]
    assert set(states[4:]) == {StepState.SKIPPED}
    assert rebuild.steps.get(position=2).finished_at == fresh(rebuild).finished_at


def test_force_fail_takes_the_lease_from_a_driver(trio: Any) -> None:
    rebuild = make_lost(trio)
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease
    assert leases.renew(lease), "the control: until then the lease is good"
    cleanups.force_fail(rebuild, "olga")
    shown = RebuildEvent.objects.count()
    assert not leases.renew(lease)
    event = RebuildEvent(rebuild=rebuild, at=timezone.now(), level=Level.INFO, text="too late")
    for write in (
        lambda: rebuild_driver.heartbeat(lease, RebuildUpdate(events=[event]), {"late": True}),
        lambda: end_step(lease, "stream", StepState.DONE, {}, RebuildUpdate(events=[event]), {"late": True}),
        lambda: finish(lease, Status.SUCCEEDED, "done"),
        lambda: leases.mark_reachable(lease),
    ):
        with pytest.raises(LeaseLost):
            write()
    leases.release_lease(lease, 0)
    found = fresh(rebuild)
    assert (found.status, found.next_tick_at, found.checkpoint) == (Status.FAILED, None, {})
    assert (found.lease_owner, found.lease_until) == ("", None)
    assert RebuildEvent.objects.count() == shown
    assert rebuild_driver.take_lease(rebuild.pk) is None


def test_target_can_be_rebuilt_after_force_fail(trio: Any) -> None:
    cleanups.force_fail(make_lost(trio), "olga")
    newer = make_rebuild(target=trio[2], source=trio[1], status=Status.QUEUED)
    assert starts.start(newer) == ""


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LOST])
def test_force_fail_ignores_a_rebuild_that_is_not_lost(trio: Any, status: Status) -> None:
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=status)
    before = Rebuild.objects.values().get()
    assert not cleanups.force_fail(rebuild, "olga")
    assert Rebuild.objects.values().get() == before
    assert not RebuildEvent.objects.exists()


def test_second_force_fail_changes_nothing(trio: Any) -> None:
    rebuild = make_lost(trio)
    assert [cleanups.force_fail(rebuild, name) for name in ("olga", "oscar")] == [True, False]
    assert "olga" in fresh(rebuild).outcome
    assert AuditEntry.objects.count() == 1


def test_sweep_is_claimed_once(trio: Any) -> None:
    rebuild = ended_with_a_sweep(trio)
    assert cleanups.claim_sweep(rebuild.pk) == rebuild
    assert cleanups.claim_sweep(rebuild.pk) is None
    assert cleanups.sweeps_due(timezone.now()) == []


@pytest.mark.parametrize(
    ("ended_seconds_ago", "wait_seconds"),
    [(5, SOON_SECONDS), (HOUR_SECONDS - 60, SOON_SECONDS), (HOUR_SECONDS + 60, LATER_SECONDS)],
)
def test_sweep_delay_grows(trio: Any, ended_seconds_ago: float, wait_seconds: float) -> None:
    rebuild = ended_with_a_sweep(trio, ended_seconds_ago=ended_seconds_ago)
    before = timezone.now()
    assert cleanups.claim_sweep(rebuild.pk)
    due = fresh(rebuild).sweep_due_at
    assert due is not None
    assert 0 <= (due - before).total_seconds() - wait_seconds < 5
    assert cleanups.sweeps_due(due - timedelta(seconds=1)) == []
    assert cleanups.sweeps_due(due + timedelta(seconds=1)) == [rebuild.pk]


@pytest.mark.parametrize("held", [1, 2])
def test_sweep_waits_for_a_rebuild_with_a_lock(trio: Any, held: int) -> None:
    rebuild = ended_with_a_sweep(trio)
    newer = make_rebuild(target=trio[2], source=trio[1])
    hold = Hold.objects.create(instance=trio[held], rebuild=newer, purpose="source", taken_at=timezone.now())
    assert cleanups.claim_sweep(rebuild.pk) is None
    assert fresh(rebuild).sweep_due_at == rebuild.sweep_due_at, "it is due still, at once after the hold"
    hold.delete()
    assert cleanups.claim_sweep(rebuild.pk) == rebuild


def test_sweep_ignores_a_lock_on_another_instance(trio: Any) -> None:
    rebuild = ended_with_a_sweep(trio)
    Hold.objects.create(instance=trio[0], rebuild=rebuild, purpose="source", taken_at=timezone.now())
    assert cleanups.claim_sweep(rebuild.pk) == rebuild


@pytest.mark.parametrize("status", [status for status in Status if status not in FINAL])
def test_sweep_ignores_unended_rebuilds(trio: Any, status: Status) -> None:
    rebuild = ended_with_a_sweep(trio, status=status)
    assert cleanups.sweeps_due(timezone.now()) == []
    assert cleanups.claim_sweep(rebuild.pk) is None


def test_claim_sweep_refuses_when_not_due(trio: Any) -> None:
    later = ended_with_a_sweep(trio, sweep_due_at=timezone.now() + timedelta(seconds=60))
    clean = ended_with_a_sweep(trio, sweep_due_at=None)
    assert [cleanups.claim_sweep(item.pk) for item in (later, clean)] == [None, None]


def test_failed_sweep_is_repeated(trio: Any) -> None:
    rebuild = ended_with_a_sweep(trio, outcome="unknown")
    cleanups.claim_sweep(rebuild.pk)
    cleanups.end_sweep(rebuild, {"jobs_ended": True}, "")
    found = fresh(rebuild)
    assert found.checkpoint == {"jobs_ended": True}
    assert found.outcome == "unknown"
    assert found.sweep_due_at is not None
    assert not AuditEntry.objects.exists()


def test_end_sweep_updates_the_outcome_and_keeps_the_status(trio: Any) -> None:
    rebuild = ended_with_a_sweep(trio, outcome="nothing is known")
    cleanups.claim_sweep(rebuild.pk)
    cleanups.end_sweep(rebuild, {"source_closed": True}, "as before")
    found = fresh(rebuild)
    assert (found.sweep_due_at, found.outcome) == (None, "as before")
    assert (found.status, found.revision) == (Status.FAILED, rebuild.revision + 1)
    assert "as before" in RebuildEvent.objects.get().text
    assert AuditEntry.objects.get().action == "rebuild.cleaned_up"
    assert cleanups.sweeps_due(timezone.now() + timedelta(days=1)) == []
