"""One read of a MySQL source for three replicas, with XtraBackup: the tests of the other file on these servers."""

from collections.abc import Iterator

import pytest

from tests.stack import Stack

from .test_shared_read import (  # noqa: F401
    narrow,
    test_cancelled_leader_lets_followers_finish,
    test_killed_sender_lets_the_source_replicate_again,
    test_killed_worker_lets_all_three_finish,
    test_shared_read_compresses_once_for_three_replicas,
    test_shared_read_rebuilds_three_replicas_under_load,
    test_stalled_follower_is_dropped_and_rebuilt_again,
    test_stalled_leader_is_dropped_and_rebuilt_again,
    three_replicas,
)
from .xtrabackup import FLAVORS

pytestmark = [pytest.mark.services, pytest.mark.by_hand("MySQL 5.7", "shared read")]


@pytest.fixture(scope="module", params=FLAVORS)
def three(request: pytest.FixtureRequest) -> Iterator[Stack]:
    with three_replicas(request.param) as running:
        yield running
