"""Comparisons of all rows after rebuilds: when they start, wait, make way and end."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.rebuilds.certificate.record import RECORD, REST
from dbops.engine.states import RunOrigin, RunStatus, Status
from dbops.lifecycle import leases, row_comparisons
from dbops.lifecycle.leases import LeaseLost
from dbops.lifecycle.row_comparisons import ComparisonLease, ComparisonUpdate
from dbops.models import AuditEntry, Hold, Instance, Maintenance, Rebuild, RowComparison
from dbops.operations.rebuilds import plan_rebuild, request_rebuild
from dbops.operations.row_comparisons import cancel_comparison
from dbops.worker import scheduler
from dbops.worker.pending import pending
from tests.app import rows
from tests.app.backup_rows import make_run, make_schedule
from tests.app.comparison_rows import LEFT, RESULT, made_comparison, queued_comparison, succeed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]


def driven() -> ComparisonLease:
    """Return the lease of a running comparison."""
    found = queued_comparison()
    assert row_comparisons.start(found)
    lease = row_comparisons.take_lease(found.pk)
    assert lease is not None
    return lease


def again(target: str = "replica-1", source: str = "backup-1", key: str = "two") -> Rebuild:
    """Request one more rebuild."""
    instances = {one.name: one for one in Instance.objects.all()}
    given: dict[str, Any] = {"target": instances[target], "source": instances[source]}
    plan = plan_rebuild(**given)
    actor = rows.make_user(f"olga-{key}", "operator")
    return request_rebuild(
        actor=actor, typed_name=target, reason="again", fingerprint=plan.fingerprint, request_key=key, **given
    )


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("sequence").values_list("action", flat=True))


def last() -> AuditEntry:
    return AuditEntry.objects.order_by("sequence").reverse()[0]


def test_success_queues_what_the_certificate_left() -> None:
    found = queued_comparison()
    assert (found.status, found.is_current, found.checkpoint) == (RunStatus.QUEUED, True, {REST: LEFT})
    assert actions()[-2:] == ["rebuild.succeeded", "comparison.queued"]
    assert last().detail["rebuild"] == found.rebuild_id
    assert "queued row comparison" in pending(timezone.now())


def test_success_that_left_nothing_queues_nothing_and_ends_the_earlier_problem() -> None:
    rebuild = rows.started_rebuild()
    earlier = Rebuild.objects.create(
        **{field: getattr(rebuild, field) for field in ("target", "source", "method", "requested_by", "requested_at")},
        uid="earlier", request_key="earlier", status=Status.SUCCEEDED, reason="x", plan={}, plan_fingerprint="",
    )  # fmt: skip
    old = made_comparison(earlier, RunStatus.FAILED, differing=1)
    assert succeed(rebuild, left=False) is None
    old.refresh_from_db()
    assert not old.is_current


def test_one_comparison_runs_in_a_cluster() -> None:
    first = queued_comparison()
    other = Rebuild.objects.create(
        **{field: getattr(first.rebuild, field) for field in ("source", "method", "requested_by", "requested_at")},
        target=rows.make_instance(first.target.cluster, "replica-2"),
        uid="other", request_key="other", status=Status.SUCCEEDED, reason="x", plan={}, plan_fingerprint="",
    )  # fmt: skip
    second = made_comparison(other, RunStatus.QUEUED)
    assert row_comparisons.start_what_can() == [first.pk]
    assert row_comparisons.start_what_can() == []
    second.refresh_from_db()
    assert second.status == RunStatus.QUEUED
    lease = row_comparisons.take_lease(first.pk)
    assert lease is not None
    row_comparisons.finish(lease, RunStatus.SUCCEEDED, ComparisonUpdate(), {}, "All rows are equal.")
    assert row_comparisons.start_what_can() == [second.pk]


def test_second_delivery_does_nothing_and_a_dead_worker_is_replaced() -> None:
    lease = driven()
    assert row_comparisons.take_lease(lease.row.pk) is None
    RowComparison.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert "row comparison" in pending(timezone.now())
    after = row_comparisons.take_lease(lease.row.pk)
    assert after is not None
    assert after.row.fence > lease.row.fence
    assert actions()[-1] == "comparison.taken_over"
    with pytest.raises(LeaseLost):
        row_comparisons.heartbeat(lease, ComparisonUpdate(changes={"is_pausing": True}))
    with pytest.raises(LeaseLost):
        row_comparisons.may_pause(lease)
    with pytest.raises(LeaseLost):
        row_comparisons.finish(lease, RunStatus.SUCCEEDED, ComparisonUpdate(), {}, "")


@pytest.mark.parametrize("name", ["replica-1", "backup-1"])
@pytest.mark.parametrize("kind", ["hold", "backup run", "maintenance"])
def test_comparison_waits_for_work_on_its_servers(name: str, kind: str) -> None:
    lease = driven()
    instance = Instance.objects.get(name=name)
    if kind == "hold":
        Hold.objects.create(instance=instance, purpose="source", taken_at=timezone.now(), rebuild=lease.row.rebuild)
    elif kind == "backup run":
        make_run(make_schedule(instance), RunStatus.RUNNING, origin=RunOrigin.OBSERVED)
    else:
        Maintenance.objects.create(cluster=instance.cluster, reason="x", starts_at=timezone.now())
    assert row_comparisons.may_pause(lease)
    assert not RowComparison.objects.get().is_pausing


def test_comparison_without_others_may_pause_and_each_write_says_whether_it_does() -> None:
    lease = driven()
    assert row_comparisons.may_pause(lease) == ""
    found = RowComparison.objects.get()
    assert found.is_pausing
    assert found.paused_at is not None
    row_comparisons.heartbeat(lease, ComparisonUpdate(changes={"is_pausing": False}))
    assert not RowComparison.objects.get().is_pausing


def test_rebuild_of_the_target_ends_its_comparison() -> None:
    lease = driven()
    rebuild = again()
    assert scheduler.start_what_can() == [rebuild.pk]
    found = RowComparison.objects.get()
    assert (found.status, found.error["code"]) == (RunStatus.CANCELLED, "comparison.superseded")
    assert (found.cluster_slot, found.next_tick_at, found.lease_owner) == (None, None, "")
    with pytest.raises(LeaseLost):
        row_comparisons.heartbeat(lease, ComparisonUpdate())
    entry = AuditEntry.objects.get(action="comparison.cancelled")
    assert entry.detail["code"] == "comparison.superseded"


@pytest.mark.parametrize(("seconds", "starts"), [(0, False), (row_comparisons.RESUMED_SECONDS + 1, True)])
def test_rebuild_of_the_target_waits_for_the_moment_of_a_pause_and_not_for_a_dead_server(
    seconds: int, starts: bool
) -> None:
    lease = driven()
    row_comparisons.may_pause(lease)
    RowComparison.objects.update(paused_at=timezone.now() - timedelta(seconds=seconds))
    rebuild = again()
    assert scheduler.start_what_can() == ([rebuild.pk] if starts else [])
    assert (Hold.objects.count(), RowComparison.objects.get().is_pausing) == ((2, False) if starts else (0, True))


def test_rebuild_that_reads_the_target_waits_for_the_moment_of_a_pause() -> None:
    lease = driven()
    rows.make_instance(lease.row.target.cluster, "replica-2")
    row_comparisons.may_pause(lease)
    RowComparison.objects.update(
        paused_at=timezone.now() - timedelta(hours=1)
    )  # it must not read a server that does not replicate
    rebuild = again(target="replica-2", source="replica-1")
    assert scheduler.start_what_can() == []
    row_comparisons.heartbeat(lease, ComparisonUpdate(changes={"is_pausing": False}))
    assert scheduler.start_what_can() == [rebuild.pk]
    assert RowComparison.objects.get().status == RunStatus.RUNNING
    assert row_comparisons.may_pause(lease)


def test_end_keeps_the_record_and_no_values_of_keys() -> None:
    lease = driven()
    checkpoint = {REST: LEFT, RECORD: RESULT, "certify.rows": {"at": ["a secret"]}}
    row_comparisons.heartbeat(lease, ComparisonUpdate(changes={"checkpoint": checkpoint, "differing": 1}))
    error = {"code": "comparison.differs", "cause": "x", "state": "y"}
    row_comparisons.finish(lease, RunStatus.FAILED, ComparisonUpdate(), error, "Rows differ.")
    found = RowComparison.objects.get()
    assert (found.status, found.error["code"], found.record) == (RunStatus.FAILED, "comparison.differs", RESULT)
    assert "a secret" not in str(found.checkpoint)
    entry = last()
    assert (entry.action, entry.outcome, entry.instance) == ("comparison.failed", "failed", "replica-1")
    assert (entry.detail["code"], entry.detail["tables"], entry.detail["differing"]) == ("comparison.differs", 3, 1)


def test_operator_cancels_a_queued_comparison_at_once_and_a_running_one_by_its_driver() -> None:
    found = queued_comparison()
    olga = rows.make_user("otto", "operator")
    cancel_comparison(actor=olga, comparison=found)
    assert (found.status, found.error["code"]) == (RunStatus.CANCELLED, "comparison.cancelled")
    with pytest.raises(Refused, match=r"comparison\.ended"):
        cancel_comparison(actor=olga, comparison=found)
    RowComparison.objects.update(status=RunStatus.QUEUED, cancel_requested_at=None)
    assert row_comparisons.start(found)
    lease = row_comparisons.take_lease(found.pk)
    assert lease is not None
    cancel_comparison(actor=olga, comparison=found)
    assert found.status == RunStatus.RUNNING
    assert row_comparisons.heartbeat(lease, ComparisonUpdate())
    assert actions().count("comparison.cancel_requested") == 2
    with pytest.raises(Refused, match=r"comparison\.ended"):
        cancel_comparison(actor=olga, comparison=found)


def test_viewer_cancels_nothing() -> None:
    found = queued_comparison()
    with pytest.raises(Refused, match=r"access\.denied"):
        cancel_comparison(actor=rows.viewer(), comparison=found)
    assert RowComparison.objects.get().status == RunStatus.QUEUED


def test_silent_server_makes_it_lost_and_it_is_found_again(settings: Any) -> None:
    settings.LOST_AFTER_SECONDS = 0
    lease = driven()
    for _ in range(2):
        leases.mark_unreachable(lease, "It does not answer.")
    assert RowComparison.objects.get().status == RunStatus.LOST
    leases.mark_reachable(lease)
    assert RowComparison.objects.get().status == RunStatus.RUNNING
    assert actions()[-2:] == ["comparison.lost", "comparison.found_again"]
