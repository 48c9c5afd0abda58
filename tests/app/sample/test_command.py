"""What fills the sample: the same each time, and never a real database."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import transaction

from dbops.models import BackupRun, Cluster, InstancePeriod, Rebuild
from dbops.sample.generate import fill
from tests.app.factories import make_cluster


def outline() -> list[tuple[Any, ...]]:
    rebuilds = Rebuild.objects.order_by("pk").values_list("uid", "requested_at", "finished_at", "plan_fingerprint")
    runs = BackupRun.objects.order_by("pk").values_list("uid", "started_at", "finished_at", "bytes_written", "status")
    return [*rebuilds, *runs, *InstancePeriod.objects.order_by("pk").values_list("name", "state", "started_at")]


@pytest.mark.django_db
def test_sample_is_the_same_for_the_same_seed_and_time() -> None:
    now, found = datetime(2026, 3, 30, 10, 0, tzinfo=UTC), []  # a day after the clocks in Berlin were put forward
    for seed in (1, 1, 2):
        with transaction.atomic():
            fill(weeks=1, now=now, seed=seed)
            found.append(outline())
            transaction.set_rollback(True)
    assert found[0] == found[1]
    assert found[0] != found[2]


@pytest.mark.django_db
def test_sample_command_refuses_a_real_database(settings: Any) -> None:
    with pytest.raises(CommandError, match="DBOPS_SAMPLE") as caught:
        call_command("sample")
    assert caught.value.returncode == 2
    settings.SAMPLE = True
    make_cluster("real")
    with pytest.raises(CommandError) as caught:
        call_command("sample")
    assert caught.value.returncode == 2
    assert Cluster.objects.count() == 1
    assert not User.objects.exists()
