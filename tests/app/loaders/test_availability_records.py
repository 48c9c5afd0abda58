"""From stored rows to gaps: what probes, backups, rebuilds and maintenance left in the tables, read with a fixed number of queries."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.availability.gaps import seconds
from dbops.engine.availability.record import Cause, ClusterRecord
from dbops.engine.availability.shortages import Gap
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import Approval, Status
from dbops.loaders.availability_records import records
from dbops.models import Instance, InstancePeriod, InstanceState, Maintenance, Rebuild, RebuildStep
from tests.app.factories import make_period, make_rebuild, make_run, make_trio
from tests.engine.by_name import parts

pytestmark = pytest.mark.django_db
NOW = timezone.now().replace(microsecond=0)
DAY = Interval(NOW - timedelta(hours=24), NOW)


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def seen(instance: Instance, state: str, start: float, end: float | None, **values: Any) -> InstancePeriod:
    """The instance was seen so from ``start`` to ``end`` hours ago; without an end it still is, up to its last probe, now."""
    row = make_period(instance, state, ago(start), None if end is None else ago(end), **values)
    if end is None:
        InstanceState.objects.filter(instance=instance).update(observed_at=NOW, period=row)
    return row


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


def record(cluster_of: Instance, within: Interval = DAY) -> ClusterRecord:
    return records([cluster_of.cluster_id], within, NOW)[cluster_of.cluster_id]


def gaps_of(found: ClusterRecord, gap: Gap, within: Interval = DAY) -> list[tuple[float, float, Cause, str]]:
    return [
        (
            round((NOW - part.interval.start).total_seconds() / 3600, 3),
            round((NOW - part.interval.end).total_seconds() / 3600, 3),
            part.cause,
            part.reference,
        )
        for part in parts(found, within, method="xbstream")
        if part.gap is gap
    ]


def test_record_explains_a_lost_replica_by_backup_and_rebuild(trio: Any) -> None:
    primary, backup, replica = trio
    seen(primary, "healthy", 30, None)
    seen(backup, "healthy", 30, None)
    seen(replica, "healthy", 30, 10)
    seen(replica, "unreachable", 10, 4)
    seen(replica, "healthy", 4, None)
    run = make_run(backup, started_at=ago(9), seconds=2 * 3600, method="dump", origin="managed")
    rebuild = make_rebuild(target=replica, source=backup, status=Status.SUCCEEDED)
    Rebuild.objects.filter(pk=rebuild.pk).update(requested_at=ago(8), started_at=ago(7), finished_at=ago(4))
    RebuildStep.objects.filter(rebuild=rebuild, name="stream").update(started_at=ago(7), finished_at=ago(5))
    RebuildStep.objects.filter(rebuild=rebuild, name="release").update(started_at=ago(5), finished_at=ago(5))

    found = record(replica)
    assert gaps_of(found, Gap.SHORT) == [
        (10, 8, Cause.DETECTION, "replica-1"),
        (8, 7, Cause.WINDOW, f"rebuild {rebuild.pk}"),
        (7, 5, Cause.STREAM, f"rebuild {rebuild.pk}"),
        (5, 4, Cause.OTHER_STEPS, f"rebuild {rebuild.pk}"),
    ]
    assert gaps_of(found, Gap.NOT_REBUILDABLE) == [
        (9, 7, Cause.BACKUP, f"run {run.pk}"),
        (7, 5, Cause.REBUILD, f"rebuild {rebuild.pk}"),
    ]
    assert gaps_of(found, Gap.NOT_OBSERVED) == []


def test_records_leave_the_source_free_when_rolling_back(trio: Any) -> None:
    for instance in trio:
        seen(instance, "healthy", 30, None)
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=Status.SUCCEEDED)
    Rebuild.objects.filter(pk=rebuild.pk).update(requested_at=ago(8), started_at=ago(7), finished_at=ago(4))
    assert gaps_of(record(trio[2]), Gap.NOT_REBUILDABLE) == [(7, 4, Cause.REBUILD, f"rebuild {rebuild.pk}")]
    Rebuild.objects.filter(pk=rebuild.pk).update(method="rollback")
    assert gaps_of(record(trio[2]), Gap.NOT_REBUILDABLE) == []


def test_records_show_approval_as_cause(trio: Any) -> None:
    primary, backup, replica = trio
    for instance in (primary, backup):
        seen(instance, "healthy", 30, None)
    seen(replica, "unreachable", 10, None)
    rebuild = make_rebuild(target=replica, source=backup, status=Status.QUEUED, approval=Approval.APPROVED)
    Rebuild.objects.filter(pk=rebuild.pk).update(requested_at=ago(8), approval_at=ago(3))
    assert gaps_of(record(replica), Gap.SHORT) == [
        (10, 8, Cause.DETECTION, "replica-1"),
        (8, 3, Cause.APPROVAL, f"rebuild {rebuild.pk}"),
        (3, 0, Cause.QUEUE, f"rebuild {rebuild.pk}"),
    ]


def test_records_end_at_the_last_probe(trio: Any) -> None:
    for instance in trio:
        seen(instance, "healthy", 30, None)
    InstanceState.objects.filter(instance=trio[2]).update(observed_at=ago(3))
    assert gaps_of(record(trio[0]), Gap.NOT_OBSERVED) == [(3, 0, Cause.NOT_PROBED, "replica-1")]


def test_record_has_no_gap_until_the_next_probe_is_overdue(trio: Any) -> None:
    for instance in trio:
        seen(instance, "healthy", 30, None)
    InstanceState.objects.update(observed_at=NOW - timedelta(seconds=40))
    assert gaps_of(record(trio[0]), Gap.NOT_OBSERVED) == []
    InstanceState.objects.update(observed_at=NOW - timedelta(seconds=90))
    assert gaps_of(record(trio[0]), Gap.NOT_OBSERVED) == [
        (0.025, 0, Cause.NOT_PROBED, "backup-1, primary-1, replica-1")
    ]


def test_record_is_not_observed_before_the_first_probe(trio: Any) -> None:
    for instance in trio:
        seen(instance, "healthy", 6, None)
    assert gaps_of(record(trio[0]), Gap.NOT_OBSERVED) == [(24, 6, Cause.NOT_PROBED, "")]


def test_record_counts_a_removed_instance_until_its_removal(trio: Any) -> None:
    primary, backup, replica = trio
    seen(primary, "healthy", 30, None)
    seen(backup, "healthy", 30, None)
    seen(replica, "stopped", 30, 12)
    replica.delete()
    assert gaps_of(record(primary), Gap.SHORT) == [(24, 12, Cause.DETECTION, "replica-1")]


def test_records_count_a_new_role_from_its_first_probe(trio: Any) -> None:
    primary, backup, replica = trio
    seen(primary, "healthy", 30, 10)
    seen(primary, "unreachable", 10, None)
    seen(backup, "healthy", 30, None)
    seen(replica, "healthy", 30, 8)
    Instance.objects.filter(pk=primary.pk).update(role="replica")
    Instance.objects.filter(pk=replica.pk).update(role="primary")
    replica.refresh_from_db()
    seen(replica, "healthy", 8, None)
    primary.refresh_from_db()
    InstancePeriod.objects.filter(instance=primary, ended_at=None).update(ended_at=ago(8))
    seen(primary, "unreachable", 8, None)
    found = record(primary)
    assert gaps_of(found, Gap.SHORT) == [(8, 0, Cause.DETECTION, "primary-1")], "as a primary it was no missing replica"


def test_record_marks_maintenance(trio: Any) -> None:
    for instance in trio:
        seen(instance, "healthy", 30, None)
    row = Maintenance.objects.create(
        cluster=trio[0].cluster, starts_at=ago(5), ends_at=ago(3), reason="disks", created_by="olga"
    )
    found = record(trio[0])
    assert gaps_of(found, Gap.NOT_REBUILDABLE) == [(5, 3, Cause.MAINTENANCE, f"maintenance {row.pk}")]
    assert found.planned[0].reason == "disks"


def test_record_explains_a_missing_replica_by_a_failed_rebuild(trio: Any) -> None:
    primary, backup, replica = trio
    seen(primary, "healthy", 90, None)
    seen(backup, "healthy", 90, None)
    seen(replica, "unreachable", 90, None)
    rebuild = make_rebuild(target=replica, source=backup, status=Status.FAILED)
    Rebuild.objects.filter(pk=rebuild.pk).update(requested_at=ago(50), started_at=ago(50), finished_at=ago(40))
    assert gaps_of(record(replica), Gap.SHORT) == [(24, 0, Cause.RETRY, f"rebuild {rebuild.pk}")]


def test_records_end_a_backup_when_its_file_is_removed(trio: Any) -> None:
    for instance in trio:
        seen(instance, "healthy", 30, None)
    make_run(trio[1], started_at=ago(20), seconds=3600, method="dump", origin="managed", removed_at=ago(2))
    found = parts(record(trio[0]), DAY, method="dump")
    assert seconds(found, Gap.NOT_REBUILDABLE) == (5 + 2) * 3600


def test_records_take_a_fixed_number_of_queries(trio: Any, django_assert_num_queries: Any) -> None:
    others = [make_trio(f"cluster-{number}") for number in range(4)]
    for three in [trio, *others]:
        for instance in three:
            seen(instance, "healthy", 30, None)
        make_run(three[1], started_at=ago(9), seconds=3600)
        make_rebuild(target=three[2], source=three[1], status=Status.SUCCEEDED, requested_at=ago(8), finished_at=ago(7))
    keys = [three[0].cluster_id for three in [trio, *others]]
    with django_assert_num_queries(11):
        assert len(records(keys, DAY, NOW)) == 5
    with django_assert_num_queries(11):
        records(keys[:1], DAY, NOW)
