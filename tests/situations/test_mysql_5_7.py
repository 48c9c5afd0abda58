"""MySQL 5.7.22: its dumps, and what a rebuild from one keeps. Its hosts have MariaDB's clients, as Debian's ``default-mysql-client``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.unpacked import MYSQL, MYSQL_5_7
from tests.e2e.host_state import one
from tests.e2e.settings import relaxed_and_put_back, values_of
from tests.e2e.test_managed_backup import back_up, backups_of, make_schedule
from tests.situations.old_mysql import (
    KINDS,
    OWN,
    PRIMARY,
    SCHEDULE,
    SOURCE,
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
)
from tests.situations.test_certificate import prepare
from tests.stack import Stack, running_stack, wait_for

WHY_NOT = MYSQL_5_7.why_not()
pytestmark = [pytest.mark.services, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "MySQL 5.7 is here")]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(web=False, flavor="mysql-5.7", size="32M") as running:
        make_schedule(running, SCHEDULE, "dump")
        yield running


@pytest.mark.situation("dump program", "refused before anything starts: the program is of the other product")
def test_dump_by_mariadbs_program_is_refused_before_it_starts(stack: Stack) -> None:
    status, result = back_up(stack, SCHEDULE)
    assert (status, result["status"], result["error"]["code"]) == (1, "failed", "backup.dump_program")
    assert not backups_of(stack).exists()
    plan = stack.plan(TARGET, "--method", "dump")
    assert codes(plan) == {"archive.file", "dump.program"}


@pytest.mark.situation("clone", "refused for its version, and for nothing else")
def test_clone_is_refused_for_its_version_alone(stack: Stack) -> None:
    assert codes(stack.plan(TARGET, "--method", "clone")) == {"clone.version"}


@pytest.fixture(scope="module")
def dumped(stack: Stack) -> Stack:
    """The source's host has MySQL's program, and a dump. MySQL 9 brings the login of 5.7 as a file."""
    folder = MYSQL.folder()
    if folder is None:
        pytest.skip(MYSQL.why_not())
    programs = stack.lab.host(SOURCE).sshd.programs
    programs.mkdir(exist_ok=True)
    (programs / "mysqldump").symlink_to(MYSQL.programs(folder)["mysqldump"])
    prepare(stack)
    have_events(stack)
    record = dump_under_writes(stack)
    assert record["position"]["gtid"]
    return stack


@pytest.mark.runs("MySQL 5.7", "dump")
@pytest.mark.runs("MySQL 5.7", "catch-up")
@pytest.mark.situation("7", "succeeded; no event of a dump writes")
@pytest.mark.situation("9", "kept, and read back after the repoint")
@pytest.mark.situation("inventory", "succeeded with a certificate, from a dump too")
def test_replica_is_rebuilt_from_a_dump_without_its_server(dumped: Stack) -> None:
    change_all(
        dumped,
        TARGET,
        "STOP SLAVE",
        "CHANGE MASTER TO MASTER_DELAY = 1, MASTER_CONNECT_RETRY = 5, MASTER_RETRY_COUNT = 77",
        "CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('trash.%', 'a_b.c%')",
        "START SLAVE",
    )
    before = kept_of(dumped)
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
    dump_of_others_is_observed(stack, tmp_path, "mysqldump")


@pytest.mark.situation("position", "a dump without a GTID set, which no rebuild reads: refused by the plan")
def test_dump_without_gtid_is_made_and_refused_for_a_rebuild(dumped: Stack) -> None:
    dump_without_gtid_is_refused(dumped)
