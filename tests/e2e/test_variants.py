"""Other sources: parallel appliers, replication that must be paused, replication by file and position."""

from collections.abc import Iterator

import pytest

from lab.checks import SERVER_USER_VARIABLE, is_root
from tests.stack import Stack, running_stack

from .host_state import is_replicating, one, same_data_at_one_gtid

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def variant() -> Iterator[Stack]:
    """A lab whose replicas apply in parallel."""
    with running_stack(web=False, parallel_appliers=4) as running:
        yield running


@pytest.mark.skipif(not is_root(), reason="only root can run servers as another account")
def test_server_under_another_account_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The account is read from the data directory: no name of it is assumed."""
    monkeypatch.setenv(SERVER_USER_VARIABLE, "games")
    with running_stack(web=False) as stack:
        stack.wait_for_possible_plan("replica-1")
        stack.rebuild("replica-1")
        data = stack.lab.host("replica-1").data_dir
        assert {path.owner() for path in (data, *data.rglob("*"))} == {"games"}
        assert is_replicating(stack, "replica-1")


def by_position(stack: Stack, *names: str) -> None:
    for name in names:
        for statement in ("STOP SLAVE", "CHANGE MASTER TO MASTER_USE_GTID = no", "START SLAVE"):
            one(stack, name, statement)
    for name in names:  # a plan made of what was read before would be refused by the live look
        stack.wait_for_facts(name, answering=True)


def paused(stack: Stack) -> bool:
    """Whether the last rebuild stopped the source's applier."""
    rebuild = stack.rows("SELECT id FROM dbops_rebuild ORDER BY id DESC LIMIT 1")[0]["id"]
    return bool(
        stack.rows("SELECT 1 FROM dbops_executedcommand WHERE rebuild_id = ? AND \"key\" LIKE 'pause.%'", rebuild)
    )


def rebuild_under_load(stack: Stack) -> None:
    stack.lab.load_start(tps=100)
    stack.wait_for_possible_plan("replica-1")
    stack.rebuild("replica-1")
    assert is_replicating(stack, "backup-1")
    same_data_at_one_gtid(stack, "replica-1")


def test_source_with_parallel_appliers_is_copied_without_a_pause(variant: Stack) -> None:
    rebuild_under_load(variant)
    assert not paused(variant)


def test_statement_based_source_is_paused_and_resumed(variant: Stack) -> None:
    one(variant, "backup-1", "SET GLOBAL binlog_format = STATEMENT")
    try:
        variant.wait_for_facts("backup-1", answering=True)
        rebuild_under_load(variant)
        assert paused(variant)
    finally:
        one(variant, "backup-1", "SET GLOBAL binlog_format = ROW")
        variant.wait_for_facts("backup-1", answering=True)


def test_file_and_position_replica_is_rebuilt_and_repointed(variant: Stack) -> None:
    by_position(variant, "backup-1", "replica-1")
    rebuild_under_load(variant)
    link = one(variant, "replica-1", "SHOW SLAVE STATUS")
    assert (link["Using_Gtid"], link["Master_Host"]) == ("No", variant.lab.host("primary-1").address)
