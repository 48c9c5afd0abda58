"""Start conditions other than locks."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.states import BackupMethod, RunOrigin, RunStatus, Status
from dbops.models import Instance, Maintenance, Rebuild
from dbops.worker.start_conditions import unmet_conditions
from tests.app.factories import make_rebuild, make_trio
from tests.app.loaders.test_cluster_snapshots import make_run
from tests.said import names

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


@pytest.fixture
def queued(trio: tuple[Instance, Instance, Instance]) -> Rebuild:
    return make_rebuild(target=trio[2], source=trio[1], status=Status.QUEUED)


def closed() -> dict[int, str]:
    return unmet_conditions(timezone.now())


def test_unmet_conditions_are_empty_when_nothing_runs(queued: Rebuild, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(4):
        assert closed() == {}


@pytest.mark.parametrize("origin", [RunOrigin.OBSERVED, RunOrigin.REPORTED])
@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.LOST])
@pytest.mark.parametrize("of", [1, 2])
def test_gate_is_closed_by_an_external_run_on_source_or_target(
    trio: tuple[Instance, ...], queued: Rebuild, origin: RunOrigin, status: RunStatus, of: int
) -> None:
    run = make_run(trio[of], origin=origin, status=status, method=BackupMethod.PHYSICAL)
    [(waits, why)] = closed().items()
    assert waits == queued.pk
    assert names(why, trio[of].name, run.pk)


def test_unmet_conditions_omit_a_managed_run(trio: tuple[Instance, ...], queued: Rebuild) -> None:
    make_run(trio[1])
    assert closed() == {}


def test_gate_ignores_other_instances_and_ended_runs(trio: tuple[Instance, ...], queued: Rebuild) -> None:
    make_run(trio[0], origin=RunOrigin.OBSERVED)
    make_run(trio[1], origin=RunOrigin.OBSERVED, status=RunStatus.ENDED, finished_at=timezone.now())
    assert closed() == {}


def test_rollback_gate_depends_on_the_target_only(trio: tuple[Instance, ...]) -> None:
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=Status.QUEUED)
    Rebuild.objects.update(method="rollback")
    make_run(trio[1], origin=RunOrigin.OBSERVED)
    assert closed() == {}
    make_run(trio[2], origin=RunOrigin.OBSERVED)
    assert list(closed()) == [rebuild.pk]


@pytest.mark.parametrize(
    ("begins", "ends", "is_closed"), [(-1, 1, True), (-1, None, True), (-2, -1, False), (1, 2, False), (1, None, False)]
)
def test_gate_is_closed_during_maintenance(
    trio: tuple[Instance, ...], queued: Rebuild, begins: int, ends: int | None, is_closed: bool
) -> None:
    now = timezone.now()
    ends_at = None if ends is None else now + ends * HOUR
    Maintenance.objects.create(cluster=trio[0].cluster, starts_at=now + begins * HOUR, ends_at=ends_at, reason="disks.")
    found = closed()
    assert set(found) == ({queued.pk} if is_closed else set())
    assert all(names(why, "shop", "disks") for why in found.values())


def test_maintenance_does_not_block_a_rollback(trio: tuple[Instance, ...], queued: Rebuild) -> None:
    Rebuild.objects.update(method="rollback")
    Maintenance.objects.create(cluster=trio[0].cluster, starts_at=timezone.now() - HOUR, reason="new disks")
    assert closed() == {}


def test_unmet_conditions_take_a_fixed_number_of_queries(
    trio: tuple[Instance, ...], django_assert_num_queries: Any
) -> None:
    for name in ("a", "b", "c"):
        _, backup, replica = make_trio(name)
        make_rebuild(target=replica, source=backup, status=Status.QUEUED)
        make_run(backup, origin=RunOrigin.OBSERVED)
        Maintenance.objects.create(cluster=backup.cluster, starts_at=timezone.now() - HOUR, reason="new disks")
    with django_assert_num_queries(6):
        assert len(closed()) == 3
