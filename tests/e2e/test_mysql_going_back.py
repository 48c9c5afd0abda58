"""Cancels, put back and resumed rebuilds on MySQL with XtraBackup: the tests of the other files on these servers."""

from collections.abc import Iterator

import pytest

from tests.stack import Stack, running_stack

from .test_cancel import test_cancel_in_a_step_leaves_a_known_state  # noqa: F401
from .test_going_back import (  # noqa: F401
    test_failover_during_the_rebuild_never_repoints_to_the_old_primary,
    test_follow_ups_are_refused_when_the_copy_is_writable,
    test_retry_continues_with_the_copy,
    test_retry_is_refused_after_a_started_preparation,
    test_retry_is_refused_with_half_a_copy,
    test_rollback_refuses_other_data,
    test_rollback_restores_and_serves_old_data,
)
from .xtrabackup import FLAVORS

pytestmark = pytest.mark.services


@pytest.fixture(scope="module", params=FLAVORS)
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    with running_stack(web=False, flavor=request.param) as running:
        yield running
