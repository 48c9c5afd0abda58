"""A replica rebuilt from a finished backup or dump, for real: while the server that made it is down; and a damaged file is found out."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.said import names, numbers
from tests.scratch import left_in_tmp
from tests.stack import Stack, running_stack, wait_for

from .host_state import is_replicating, one, processes_of, replicate_again, same_data_at_one_gtid
from .test_managed_backup import SOURCE, back_up, make_schedule

pytestmark = pytest.mark.services
TARGET = "replica-1"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(replicas=1, web=False) as running:
        make_schedule(running, "files", "physical")
        make_schedule(running, "statements", "dump")
        yield running


def logs_of_the_run(rebuild: dict[str, Any], lines: list[dict[str, Any]]) -> bool:
    """Whether the step that copies said which backup run arrived whole."""
    run = json.loads(rebuild["plan"])["archive"]["run"]
    return any(line.get("step") == "stream" and run in numbers(line.get("text", "")) for line in lines)


def newest_file(stack: Stack, schedule: str = "files") -> Path:
    """Return the newest backup of a schedule; make one if there is none."""
    sql = (
        "SELECT r.path FROM dbops_backuprun r JOIN dbops_backupschedule s ON s.id = r.schedule_id"
        " WHERE s.name = ? AND r.status = 'succeeded' ORDER BY r.id DESC LIMIT 1"
    )
    if not stack.rows(sql, schedule):
        assert back_up(stack, schedule)[0] == 0
    return Path(stack.rows(sql, schedule)[0]["path"])


@pytest.mark.runs("MariaDB 10.11", "archive")
def test_replica_is_rebuilt_from_an_archive_without_its_server(stack: Stack) -> None:
    status, _ = back_up(stack, "files")
    assert status == 0
    one(stack, "primary-1", "CREATE TABLE sbtest.after_the_backup (id INT PRIMARY KEY)")
    one(stack, "primary-1", "INSERT INTO sbtest.after_the_backup VALUES (1), (2), (3)")
    source = stack.lab.host(SOURCE)
    source.stop_server()
    try:
        stack.wait_for_facts(SOURCE, answering=False)
        stack.wait_for_possible_plan(TARGET, "--method", "archive")
        status, lines = stack.rebuild(TARGET, "--method", "archive")
        assert status == 0
        [rebuild] = stack.rows("SELECT * FROM dbops_rebuild ORDER BY id DESC LIMIT 1")
        assert rebuild["method"] == "archive"
        assert logs_of_the_run(rebuild, lines)
        assert is_replicating(stack, TARGET)
        assert processes_of(rebuild["uid"]) == []
        keys = source.folder / "authorized_keys"
        assert f"dbops-{rebuild['uid']}" not in keys.read_text()
        assert stack.rows("SELECT 1 FROM dbops_hold") == []
    finally:
        source.start_server()
        replicate_again(stack, SOURCE)
    stack.wait_for_facts(SOURCE, answering=True)
    same_data_at_one_gtid(stack, TARGET)
    assert one(stack, TARGET, "SELECT COUNT(*) AS rows_there FROM sbtest.after_the_backup")["rows_there"] == 3


def test_damaged_archive_fails_and_old_data_returns(stack: Stack) -> None:
    file = newest_file(stack)
    whole = file.read_bytes()
    middle = len(whole) // 2
    file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    try:
        stack.wait_for_possible_plan(TARGET, "--method", "archive")
        status, lines = stack.rebuild(TARGET, "--method", "archive", check=False)
        assert status == 1
        assert lines[-1]["error"]["code"] == "archive.damaged", lines[-1]
    finally:
        file.write_bytes(whole)
    status, lines = stack.rebuild(TARGET, "--roll-back")
    assert (status, lines[-1]["status"]) == (0, "succeeded")
    wait_for("it replicates again", lambda: is_replicating(stack, TARGET))


def test_missing_archive_fails_before_any_change(stack: Stack) -> None:
    file = newest_file(stack)
    away = file.with_name("away")
    file.rename(away)
    server = stack.lab.host(TARGET).server_pid()
    try:
        stack.wait_for_possible_plan(TARGET, "--method", "archive")
        status, lines = stack.rebuild(TARGET, "--method", "archive", check=False)
        assert status == 1
        assert lines[-1]["error"]["code"] == "stream.no_way"
        assert names(lines[-1]["error"]["cause"], file)
        assert stack.lab.host(TARGET).server_pid() == server
    finally:
        away.rename(file)


@pytest.mark.runs("MariaDB 10.11", "dump")
def test_replica_is_rebuilt_from_a_dump(stack: Stack) -> None:
    status, _ = back_up(stack, "statements")
    assert status == 0
    one(stack, "primary-1", "CREATE TABLE sbtest.after_the_dump (id INT PRIMARY KEY)")
    one(stack, "primary-1", "INSERT INTO sbtest.after_the_dump VALUES (4)")
    stack.wait_for_possible_plan(TARGET, "--method", "dump")
    before = stack.lab.host(TARGET).data_dir.stat().st_ino
    status, lines = stack.rebuild(TARGET, "--method", "dump")
    assert status == 0
    [rebuild] = stack.rows("SELECT * FROM dbops_rebuild ORDER BY id DESC LIMIT 1")
    assert logs_of_the_run(rebuild, lines)
    assert stack.lab.host(TARGET).data_dir.stat().st_ino != before
    assert is_replicating(stack, TARGET)
    assert left_in_tmp("dbops-load.*") == []
    same_data_at_one_gtid(stack, TARGET)
    assert one(stack, TARGET, "SELECT id FROM sbtest.after_the_dump")["id"] == 4


def test_refused_dump_statement_fails_with_the_server_error(stack: Stack) -> None:
    """The file is another one than was published, so that the loading server meets a statement that it does not know first."""
    file = newest_file(stack, "statements")
    whole = file.read_bytes()
    text = gzip.decompress(whole)
    spoilt = gzip.compress(b"NO SUCH STATEMENT;\n" + text, 1)
    file.write_bytes(spoilt[: len(whole)].ljust(len(whole), b"\0"))
    try:
        stack.wait_for_possible_plan(TARGET, "--method", "dump")
        status, lines = stack.rebuild(TARGET, "--method", "dump", check=False)
        assert status == 1
        assert lines[-1]["error"]["code"] in ("dump.load", "archive.damaged"), lines[-1]
    finally:
        file.write_bytes(whole)
    status, lines = stack.rebuild(TARGET, "--roll-back")
    assert (status, lines[-1]["status"]) == (0, "succeeded")
    wait_for("it replicates again", lambda: is_replicating(stack, TARGET))
