"""Finished backups, restore tests and rebuilds from them, on MySQL with XtraBackup: the tests of other files, and what only MySQL has."""

from collections.abc import Iterator

import pytest

from lab.flavors.old_mysql import CLIENTS_VARIABLE, own_clients
from tests.stack import Stack

from .restoring import from_physical
from .test_archive import (  # noqa: F401
    test_damaged_archive_fails_and_old_data_returns,
    test_missing_archive_fails_before_any_change,
    test_refused_dump_statement_fails_with_the_server_error,
    test_replica_is_rebuilt_from_a_dump,
    test_replica_is_rebuilt_from_an_archive_without_its_server,
)
from .test_managed_backup import (  # noqa: F401
    assert_restores,
    back_up,
    backup_stack,
    test_killed_tool_fails_the_backup,
    test_killed_worker_does_not_repeat_the_backup,
    test_rebuilds_and_backup_of_one_source_never_overlap,
    test_stopped_backup_leaves_nothing_and_the_next_runs,
)
from .test_restore_tests import (  # noqa: F401
    run,
    test_copy_with_external_files_is_never_started,
    test_damaged_file_fails_with_its_code,
    test_file_that_is_no_backup_fails_to_unpack,
    test_good_backup_passes_with_the_rows_of_its_source,
    test_killed_job_fails_the_restore_test,
    test_killed_preparation_is_inconclusive,
    test_killed_worker_is_replaced_and_the_test_finishes,
    test_stopped_restore_test_leaves_nothing_and_kept_its_limits,
)
from .xtrabackup import FLAVORS

pytestmark = [
    pytest.mark.services,
    pytest.mark.by_hand("MySQL 5.7", "archive"),
    pytest.mark.by_hand("MySQL 5.7", "dump"),
    pytest.mark.by_hand("MySQL 5.7", "backup"),
    pytest.mark.by_hand("MySQL 5.7", "restore test"),
]


@pytest.fixture(scope="module", params=FLAVORS)
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    with backup_stack(2, request.param, files="physical", statements="dump") as running:
        yield running


@pytest.fixture(autouse=True)
def own_dump(request: pytest.FixtureRequest) -> None:
    """Leave out dumps where the clients are another product's."""
    flavor = request.node.callspec.params["stack"]
    if "dump" in request.node.name and flavor == "mysql-5.7" and not own_clients():
        pytest.skip(f"needs MySQL 5.7's own mysqldump: set {CLIENTS_VARIABLE}")


def test_backup_under_load_restores_to_the_same_data(stack: Stack) -> None:
    stack.lab.load_start(tps=50)
    status, result = back_up(stack, "files")
    assert (status, result["status"]) == (0, "succeeded"), result
    assert_restores(stack, stack.folder.parent / "restored", result, from_physical)
