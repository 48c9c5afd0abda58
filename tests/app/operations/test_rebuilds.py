"""Asking for a rebuild, and everything that refuses it."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import Status
from dbops.lifecycle import leases, rebuild_driver
from dbops.lifecycle.leases import LeaseLost
from dbops.lifecycle.rebuild_driver import RebuildUpdate
from dbops.models import AuditEntry, Hold, Instance, InstanceState, Rebuild
from dbops.operations.rebuilds import cancel_rebuild, candidate_sources, plan_rebuild, request_rebuild
from dbops.worker import scheduler
from tests.app import rows
from tests.said import names

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_broker(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hints to the broker are only hints: every test here holds without them."""
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


def ask(fleet: dict[str, Instance], actor: Any, **changes: Any) -> Rebuild:
    target, source = changes.pop("target", fleet["replica-1"]), fleet["backup-1"]
    values = {
        "typed_name": target.name,
        "reason": "disk replaced",
        "request_key": "one",
        "fingerprint": changes.pop("fingerprint", None) or plan_rebuild(target=target, source=source).fingerprint,
    }
    return request_rebuild(actor=actor, target=target, source=source, **{**values, **changes})


def refusal_of(call: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(Refused) as raised:
        call(*arguments, **named)
    return raised.value.code


def test_request_rebuild_creates_rebuild_steps_event_and_audit_entry() -> None:
    fleet, olga = rows.make_fleet(), rows.operator()
    rebuild = ask(fleet, olga)
    assert rebuild.status == "queued"
    assert rebuild.plan["aside_path"].endswith(rebuild.uid)
    assert [step.name for step in rebuild.steps.all()][0::13] == ["preflight", "clean-up"]
    assert names(rebuild.events.get().text, "olga", rebuild.reason)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.subject, entry.reason) == (
        "olga",
        "rebuild.requested",
        "replica-1",
        "disk replaced",
    )


def test_plan_rebuild_writes_nothing(django_assert_num_queries: Any) -> None:
    fleet = rows.make_fleet()
    plan_rebuild(target=fleet["replica-1"])
    assert not Rebuild.objects.exists()
    assert not AuditEntry.objects.exists()


def test_request_rebuild_refuses_a_viewer() -> None:
    assert refusal_of(ask, rows.make_fleet(), rows.viewer()) == "access.denied"


def test_request_rebuild_refuses_a_wrong_name() -> None:
    assert refusal_of(ask, rows.make_fleet(), rows.operator(), typed_name="replica-2") == "rebuild.name"


def test_request_rebuild_refuses_a_missing_reason() -> None:
    assert refusal_of(ask, rows.make_fleet(), rows.operator(), reason="  ") == "rebuild.reason"


def test_request_rebuild_refuses_a_stale_fingerprint() -> None:
    assert refusal_of(ask, rows.make_fleet(), rows.operator(), fingerprint="0" * 64) == "plan.stale"


def test_request_rebuild_refuses_a_plan_with_refusals() -> None:
    fleet, olga = rows.make_fleet(), rows.operator()
    assert refusal_of(ask, fleet, olga, target=fleet["primary-1"]) == "plan.refused"
    assert not Rebuild.objects.exists()


def test_request_rebuild_refuses_a_writable_target() -> None:
    fleet, olga = rows.make_fleet(), rows.operator()
    state = InstanceState.objects.get(instance=fleet["replica-1"])
    state.record["server"]["read_only"] = False
    state.save(update_fields=["record"])
    assert refusal_of(ask, fleet, olga) == "plan.refused"


def test_request_rebuild_is_idempotent_by_key() -> None:
    fleet, olga = rows.make_fleet(), rows.operator()
    assert ask(fleet, olga) == ask(fleet, olga)
    assert Rebuild.objects.count() == 1


def test_request_rebuild_refuses_a_busy_target() -> None:
    fleet, olga = rows.make_fleet(), rows.operator()
    ask(fleet, olga)
    assert refusal_of(ask, fleet, olga, request_key="two") == "rebuild.busy"


def test_plan_rebuild_prefers_a_backup_instance_to_the_primary() -> None:
    fleet = rows.make_fleet("primary-1", "backup-1", "replica-1", "replica-2")
    assert [item.name for item in candidate_sources(fleet["replica-1"])] == ["backup-1", "replica-2"]


def test_rebuilds_of_one_source_run_one_after_the_other() -> None:
    fleet, olga = rows.make_fleet("primary-1", "backup-1", "replica-1", "replica-2"), rows.operator()
    first = ask(fleet, olga)
    second = ask(fleet, olga, target=fleet["replica-2"], request_key="two")
    assert scheduler.start_what_can() == [first.pk]
    second.refresh_from_db()
    assert second.status == "queued"
    assert names(second.waiting_for, "backup-1", f"rebuild {first.pk}")
    lease = rebuild_driver.take_lease(first.pk)
    assert lease is not None
    rebuild_driver.finish(lease, Status.FAILED, "for the test")
    assert scheduler.start_what_can() == [second.pk]


def test_scheduler_orders_by_priority_before_age() -> None:
    fleet, olga = rows.make_fleet("primary-1", "backup-1", "replica-1", "replica-2"), rows.operator()
    ask(fleet, olga)
    urgent = ask(fleet, olga, target=fleet["replica-2"], request_key="two")
    Rebuild.objects.filter(pk=urgent.pk).update(priority=5)
    assert scheduler.start_what_can() == [urgent.pk]


def test_cancel_of_a_queued_rebuild_is_immediate_and_frees_its_target() -> None:
    fleet, olga = rows.make_fleet(), rows.operator()
    rebuild = ask(fleet, olga)
    cancel_rebuild(actor=olga, rebuild=rebuild)
    assert rebuild.status == "cancelled"
    assert ask(fleet, olga, request_key="two").status == "queued"
    assert refusal_of(cancel_rebuild, actor=olga, rebuild=rebuild) == "rebuild.ended"


def test_cancel_refuses_a_viewer() -> None:
    rebuild = ask(rows.make_fleet(), rows.operator())
    assert refusal_of(cancel_rebuild, actor=rows.viewer(), rebuild=rebuild) == "access.denied"


def test_queued_rebuild_expires_when_it_never_started() -> None:
    rebuild = ask(rows.make_fleet(), rows.operator())
    Rebuild.objects.update(expires_at=rebuild.requested_at)
    assert scheduler.start_what_can() == []
    rebuild.refresh_from_db()
    assert (rebuild.status, rebuild.target_slot) == ("expired", None)


def test_start_takes_both_locks_and_end_releases_them() -> None:
    rebuild = ask(rows.make_fleet(), rows.operator())
    scheduler.start_what_can()
    assert {(hold.instance.name, hold.purpose) for hold in Hold.objects.all()} == {
        ("backup-1", "source"),
        ("replica-1", "target"),
    }
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease is not None
    rebuild_driver.finish(lease, Status.SUCCEEDED, "done")
    rebuild.refresh_from_db()
    assert (rebuild.status, rebuild.target_slot, Hold.objects.count()) == ("succeeded", None, 0)


def test_take_lease_is_none_while_a_driver_is_alive() -> None:
    rebuild = ask(rows.make_fleet(), rows.operator())
    scheduler.start_what_can()
    assert rebuild_driver.take_lease(rebuild.pk) is not None
    assert rebuild_driver.take_lease(rebuild.pk) is None


def test_take_lease_is_none_after_the_end() -> None:
    rebuild = ask(rows.make_fleet(), rows.operator())
    scheduler.start_what_can()
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease is not None
    rebuild_driver.finish(lease, Status.SUCCEEDED, "done")
    assert rebuild_driver.take_lease(rebuild.pk) is None
    assert rebuild_driver.due(timezone.now()) == []


@pytest.mark.parametrize("pending_status", [Status.SUCCEEDED, Status.FAILED])
def test_end_requests_a_probe_of_both_instances_only(pending_status: Status) -> None:
    rebuild = ask(rows.make_fleet(), rows.operator())
    scheduler.start_what_can()
    later = timezone.now() + timedelta(minutes=5)
    InstanceState.objects.update(probe_due_at=later)
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease is not None
    rebuild_driver.finish(lease, pending_status, "the end")
    due = InstanceState.objects.filter(probe_due_at__lte=timezone.now()).values_list("instance__name", flat=True)
    assert set(due) == {rebuild.target.name, rebuild.source.name}
    assert InstanceState.objects.filter(probe_due_at=later).exists()


def test_driver_cannot_write_after_losing_its_lease(settings: Any) -> None:
    rebuild = ask(rows.make_fleet(), rows.operator())
    scheduler.start_what_can()
    settings.LEASE_SECONDS = -1
    slow = rebuild_driver.take_lease(rebuild.pk)
    settings.LEASE_SECONDS = 20
    assert slow is not None
    heir = rebuild_driver.take_lease(rebuild.pk)
    assert heir is not None
    assert heir.rebuild.host_token > slow.rebuild.host_token
    assert heir.reattached_after_seconds is not None
    for act in (
        lambda: rebuild_driver.heartbeat(slow, RebuildUpdate(), {}),
        lambda: rebuild_driver.begin_step(slow, "stream"),
        lambda: rebuild_driver.check_lease(slow),
        lambda: rebuild_driver.finish(slow, Status.FAILED, "late"),
        lambda: leases.mark_unreachable(slow, "late"),
    ):
        with pytest.raises(LeaseLost):
            act()
    rebuild.refresh_from_db()
    assert rebuild.status == "running"


def test_heartbeat_reports_a_requested_cancel() -> None:
    olga = rows.operator()
    rebuild = ask(rows.make_fleet(), olga)
    scheduler.start_what_can()
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease is not None
    assert rebuild_driver.heartbeat(lease, RebuildUpdate(), {}) is False
    cancel_rebuild(actor=olga, rebuild=rebuild)
    assert rebuild_driver.heartbeat(lease, RebuildUpdate(), {}) is True


def test_stored_plan_loads_as_confirmed() -> None:
    fleet = rows.make_fleet()
    rebuild = ask(fleet, rows.operator())
    assert to_record(from_record(Plan, rebuild.plan)) == rebuild.plan


@pytest.mark.django_db(transaction=True)
def test_request_rebuild_accepts_one_of_sixteen_at_once() -> None:
    fleet, olga = rows.make_fleet(), rows.operator()
    fingerprint = plan_rebuild(target=fleet["replica-1"], source=fleet["backup-1"]).fingerprint
    barrier, outcomes = threading.Barrier(16), []

    def request(number: int) -> None:
        try:
            barrier.wait()
            outcomes.append(ask(fleet, olga, request_key=f"key {number}", fingerprint=fingerprint).status)
        except Refused as error:
            outcomes.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=request, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["queued"] + ["rebuild.busy"] * 15
    assert Rebuild.objects.count() == 1
