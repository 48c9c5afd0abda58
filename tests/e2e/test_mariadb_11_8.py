"""MariaDB 11.8 in a folder of its own, beside the machine's older one: rebuilt by stream under writes, from a backup and from a dump.

Its tools write metadata files of other names (``mariadb_backup_*``), and its clients want TLS.
"""

import subprocess
from collections.abc import Iterator

import pytest

from lab.checks import find_program
from lab.unpacked import MARIADB_11_8
from tests.said import names
from tests.stack import Stack, running_stack, wait_for

from .host_state import is_replicating, last_rebuild, one, processes_of, same_data_at_one_gtid, source_is_given_back
from .settings import own_settings, relaxed_and_put_back, values_of
from .test_managed_backup import SOURCE, back_up, make_schedule
from .test_restore_tests import run_restore_test

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(bool(MARIADB_11_8.why_not()), reason=MARIADB_11_8.why_not() or "it is here"),
]
TARGET = "replica-1"
#: Unusual values. Doublewrite is relaxed too: from 11.0.6 on it can be set at run time (MDEV-33545).
OWN = {"innodb_flush_log_at_trx_commit": "3", "sync_binlog": "7"}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(web=False, flavor="mariadb-11.8") as running:
        make_schedule(running, "files", "physical")
        make_schedule(running, "statements", "dump")
        yield running


def test_unpacked_tools_precede_those_of_the_machine(stack: Stack) -> None:
    folder = MARIADB_11_8.folder()
    assert folder
    version = (folder / "version").read_text().strip()
    for name in (SOURCE, TARGET):
        facts = stack.facts(name)
        assert (facts["server"]["flavor"], facts["server"]["version"]) == ("mariadb", version)
        tools = facts["host"]["tools"]
        assert tools["mariadb-backup"]["version"].startswith(version), tools
        for program in ("mariadb-backup", "mbstream", "mariadbd", "mariadb-install-db"):
            assert tools[program]["path"] == str(stack.lab.host(name).sshd.programs / program)


def test_tool_of_another_series_is_refused(stack: Stack) -> None:
    """The tool itself would not: 10.11 backs up 11.8 with "completed OK!"."""
    own = find_program("mariadb-backup")
    assert own
    said = subprocess.run([own, "--version"], capture_output=True, text=True, check=True)
    if "server 11.8." in said.stderr + said.stdout:
        pytest.skip("the machine's own MariaDB is of the same series")
    link = stack.lab.host(SOURCE).sshd.programs / "mariadb-backup"
    right = link.readlink()
    link.unlink()
    link.symlink_to(own)
    try:
        for name in (SOURCE, TARGET):
            stack.wait_for_facts(name)
        plan = stack.plan(TARGET)
        refused = {item["code"]: item["seen"] for item in plan["findings"] if item["severity"] == "refusal"}
        assert not plan["is_possible"]
        assert names(refused["tools.source"], "11.8"), refused
    finally:
        link.unlink()
        link.symlink_to(right)
    stack.wait_for_facts(SOURCE)


@pytest.mark.runs("MariaDB 11.8", "catch-up")
@pytest.mark.runs("MariaDB 11.8", "xbstream")
def test_wiped_replica_is_rebuilt_by_stream_under_writes(stack: Stack) -> None:
    stack.lab.load_start(tps=100)
    stack.lab.break_host(TARGET, "wipe")
    stack.wait_for_facts(TARGET, answering=False)
    with own_settings(stack, TARGET, OWN):
        _, lines = stack.rebuild(TARGET)
    rebuild = last_rebuild(stack)
    assert (rebuild["method"], rebuild["status"]) == ("xbstream", "succeeded")
    assert {step["state"] for step in lines[-1]["steps"]} == {"done"}
    link = one(stack, TARGET, "SHOW SLAVE STATUS")
    assert (link["Master_Host"], link["Using_Gtid"]) == (stack.lab.primary.address, "Slave_Pos")
    same_data_at_one_gtid(stack, TARGET)
    source_is_given_back(stack, rebuild["uid"])
    changed = relaxed_and_put_back(stack)
    assert changed["innodb_flush_log_at_trx_commit"] == ("2", "3")
    assert changed["sync_binlog"] == ("0", "7")
    assert changed["innodb_doublewrite"] == ("OFF", "ON")
    assert values_of(stack, TARGET, *OWN, "innodb_doublewrite") == OWN | {"innodb_doublewrite": "ON"}
    log = stack.lab.host(SOURCE).work_dir / "rebuilds" / rebuild["uid"] / "backup.log"
    assert "mariadb_backup_binlog_info" in log.read_text()


@pytest.mark.runs("MariaDB 11.8", "backup")
@pytest.mark.runs("MariaDB 11.8", "archive")
def test_replica_is_rebuilt_from_an_archive_without_its_server(stack: Stack) -> None:
    assert back_up(stack, "files")[0] == 0
    one(stack, "primary-1", "CREATE TABLE sbtest.after_the_backup AS SELECT 3 AS id")
    source = stack.lab.host(SOURCE)
    source.stop_server()
    try:
        stack.wait_for_facts(SOURCE, answering=False)
        rebuild_from(stack, "archive")
    finally:
        source.start_server()
    stack.wait_for_facts(SOURCE, answering=True)
    same_data_at_one_gtid(stack, TARGET)
    assert one(stack, TARGET, "SELECT id FROM sbtest.after_the_backup")["id"] == 3


@pytest.mark.runs("MariaDB 11.8", "dump")
def test_replica_is_rebuilt_from_a_dump(stack: Stack) -> None:
    assert back_up(stack, "statements")[0] == 0
    one(stack, "primary-1", "CREATE TABLE sbtest.after_the_dump AS SELECT 4 AS id")
    rebuild_from(stack, "dump")
    same_data_at_one_gtid(stack, TARGET)
    assert one(stack, TARGET, "SELECT id FROM sbtest.after_the_dump")["id"] == 4


@pytest.mark.runs("MariaDB 11.8", "restore test")
def test_backup_passes_its_restore_test(stack: Stack) -> None:
    status, result = back_up(stack, "files")
    assert status == 0, result
    status, result = run_restore_test(stack, result["backup_run"])
    assert (status, result["status"]) == (0, "succeeded"), result


def rebuild_from(stack: Stack, method: str) -> None:
    for name in ("primary-1", TARGET):
        stack.wait_for_facts(name)
    _, lines = stack.rebuild(TARGET, "--method", method)
    rebuild = last_rebuild(stack)
    assert (rebuild["method"], rebuild["status"]) == (method, "succeeded"), lines[-1]
    wait_for("it replicates", lambda: is_replicating(stack, TARGET))
    assert processes_of(rebuild["uid"]) == []
    assert stack.rows("SELECT * FROM dbops_hold") == []
