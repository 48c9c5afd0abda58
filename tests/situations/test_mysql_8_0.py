"""MySQL 8.0.15 with the clients of 9.7: its dumps, and what a rebuild from one keeps."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.unpacked import MYSQL, why_no_mysql_8_0
from tests.e2e.host_state import one
from tests.e2e.settings import relaxed_and_put_back, values_of
from tests.e2e.test_managed_backup import make_schedule
from tests.situations.old_mysql import (
    KINDS,
    OWN,
    PRIMARY,
    SCHEDULE,
    TARGET,
    change_all,
    checkpoint,
    codes,
    differs_and_is_put_back,
    dump_of_others_is_observed,
    dump_under_writes,
    dump_without_gtid_is_refused,
    has_the_same_data,
    have_events,
    kept_of,
    no_event_wrote,
    rebuild_from_dump,
    replicates,
    settings_of_sessions_are_not_named,
)
from tests.situations.test_certificate import prepare
from tests.stack import Stack, running_stack, wait_for

WHY_NOT = why_no_mysql_8_0()
pytestmark = [pytest.mark.services, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "MySQL 8.0 is here")]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(web=False, flavor="mysql-8.0", size="32M") as running:
        make_schedule(running, SCHEDULE, "dump")
        yield running


@pytest.mark.situation("clone", "refused for its version, and for nothing else")
def test_clone_is_refused_for_its_version_alone(stack: Stack) -> None:
    assert codes(stack.plan(TARGET, "--method", "clone")) == {"clone.version"}


@pytest.mark.situation("run time", "what a session set for itself is not named")
def test_setting_of_a_session_is_not_one_of_the_server(stack: Stack) -> None:
    settings_of_sessions_are_not_named(stack)


@pytest.fixture(scope="module")
def dumped(stack: Stack) -> Stack:
    prepare(stack)
    have_events(stack)
    record = dump_under_writes(stack)
    assert record["position"]["gtid"]
    return stack


@pytest.mark.runs("MySQL 8.0", "dump")
@pytest.mark.runs("MySQL 8.0", "catch-up")
@pytest.mark.situation("7", "succeeded; no event of a dump writes")
@pytest.mark.situation("8a", "kept, and read back after the repoint")
@pytest.mark.situation("9", "kept, and read back after the repoint")
@pytest.mark.situation("inventory", "succeeded with a certificate, from a dump too")
def test_replica_is_rebuilt_from_a_dump_without_its_server(dumped: Stack) -> None:
    change_all(
        dumped,
        TARGET,
        "STOP SLAVE",
        "CHANGE MASTER TO MASTER_DELAY = 1, MASTER_CONNECT_RETRY = 5, MASTER_RETRY_COUNT = 77,"
        " MASTER_TLS_VERSION = 'TLSv1.2'",
        "CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('trash.%', 'a_b.c%')",
        "START SLAVE",
    )
    before = kept_of(dumped)
    assert before["Master_SSL_Allowed"] == "Yes"
    last_line = rebuild_from_dump(dumped)
    assert last_line["status"] == "succeeded", last_line
    wait_for("replication", lambda: replicates(dumped, TARGET))
    assert kept_of(dumped) == before
    has_the_same_data(dumped)
    assert one(dumped, TARGET, "SELECT id FROM sbtest.after_the_dump")["id"] == 4
    changed = relaxed_and_put_back(dumped)
    assert (changed["innodb_flush_log_at_trx_commit"], changed["sync_binlog"]) == (("2", "1"), ("0", "7"))
    assert values_of(dumped, TARGET, *OWN) == OWN
    no_event_wrote(dumped)
    found = checkpoint(dumped)["certificate"]
    assert (found["compared_with"], found["unchecked"], found["left_out"]) == (PRIMARY, {}, {})
    assert found["rows"]["count"] > 2
    assert set(found["objects"]) >= KINDS


@pytest.mark.situation("equal", "full: failed with certificate.rows_differ; the old data is put back")
def test_changed_row_of_a_loaded_dump_is_found_and_the_old_data_put_back(dumped: Stack) -> None:
    differs_and_is_put_back(dumped)


@pytest.mark.situation("dump program", "a dump of others is seen, whatever the program")
def test_dump_of_others_is_observed(stack: Stack, tmp_path: Path) -> None:
    folder = MYSQL.folder()
    assert folder
    dump_of_others_is_observed(stack, tmp_path, MYSQL.programs(folder)["mysqldump"])


@pytest.mark.situation("position", "a dump without a GTID set, which no rebuild reads: refused by the plan")
def test_dump_without_gtid_is_made_and_refused_for_a_rebuild(dumped: Stack) -> None:
    dump_without_gtid_is_refused(dumped)
