"""Many probes of one cluster that end at the same moment: one row for each difference, confirmed or gone as the newest facts say."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from dbops.lifecycle import topology_differences
from dbops.models import Cluster, TopologyDifference
from tests.app import rows
from tests.app.topology.test_differences import FROM_REPLICA, read

pytestmark = pytest.mark.django_db(transaction=True)
WORKERS = 6


def all_at_once() -> None:
    def note(cluster_id: int) -> None:
        try:
            topology_differences.note_differences([cluster_id])
        finally:
            connection.close()

    cluster_id = Cluster.objects.get().pk
    with ThreadPoolExecutor(WORKERS) as pool:
        for done in [pool.submit(note, cluster_id) for _ in range(WORKERS)]:
            done.result()


def test_concurrent_probes_write_each_difference_once() -> None:
    rows.make_fleet()
    for look in range(3):
        read("primary-1", read_only=True)
        read("backup-1", replication=FROM_REPLICA)
        read("replica-1", read_only=False, replication=())
        all_at_once()
        found = list(TopologyDifference.objects.filter(code="failover"))
        assert len(found) == 1
        assert (found[0].confirmed_at is not None) is (look > 0)
    for name in ("primary-1", "backup-1", "replica-1"):
        read(name)
    all_at_once()
    assert not TopologyDifference.objects.filter(gone_at=None).exists()
    assert TopologyDifference.objects.filter(code="failover").count() == 1
