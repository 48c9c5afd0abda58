"""No file gets its final name unless everything agrees that it is whole; and what failed says why."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.backups.completeness import judge_backup
from dbops.engine.errors import DbopsError, Refused
from dbops.engine.flavors.base import Coordinates
from dbops.engine.states import BackupMethod
from tests.fakes import ended, vanished

from . import samples

#: What servers, tools and scripts say or get: recorded, not worded here.
DEPRECATED = "WARNING: --master-data is deprecated"

PHYSICAL, DUMP = BackupMethod.PHYSICAL, BackupMethod.DUMP


def judged(method: BackupMethod, stages: dict[str, int] | None = None, tails: Any = None, **files: Any) -> Any:
    state = replace(samples.state(method, **(stages or {})), tails=tails or {})
    return judge_backup(samples.plan(method), state, samples.files(method, **files))


def code_of(*given: Any, **files: Any) -> tuple[str, str]:
    with pytest.raises(DbopsError) as caught:
        judged(*given, **files)
    return caught.value.code, caught.value.cause


def test_judge_backup_returns_positions_of_good_runs() -> None:
    physical, dump = judged(PHYSICAL), judged(DUMP)
    assert (physical.bytes, physical.sha256, physical.identity) == (1000, samples.SHA, "8:77")
    assert physical.position == Coordinates("binlog.000004", 4711, "0-1-99")
    assert dump.position == Coordinates("b.000001", 743, "0-7-3")
    assert dump.exit_statuses == dict.fromkeys(samples.STAGES[DUMP], 0)


@pytest.mark.parametrize(
    ("program", "version", "tool"),
    [
        (
            "/usr/bin/mariadb-backup",
            "/usr/bin/mariadb-backup based on MariaDB server 10.11.19-MariaDB debian-linux-gnu (x86_64)",
            "/usr/bin/mariadb-backup based on MariaDB server 10.11.19-MariaDB debian-linux-gnu (x86_64)",
        ),
        ("/usr/bin/mysqldump", "mysqldump  Ver 10.19 Distrib 10.11.19-MariaDB", None),
        ("/opt/xtrabackup", "xtrabackup version 8.0.35-30 based on MySQL server 8.0.35", None),
        ("/usr/bin/mysqldump", "mariadb-dump from 11.8.3", "/usr/bin/mysqldump mariadb-dump from 11.8.3"),
        ("/usr/bin/mysqldump", "", "/usr/bin/mysqldump"),
        ("", "mysqldump  Ver 10.19", "mysqldump  Ver 10.19"),
    ],
)
def test_tool_of_a_backup_is_named_once(program: str, version: str, tool: str | None) -> None:
    facts = f"bytes=1000\nidentity=8:77\nsha256={samples.SHA}\ntool={version}\nprogram={program}"
    found = judged(PHYSICAL, facts=facts).tool
    if tool is None:  # the path in place of the name
        assert found.startswith(f"{program} ")
        assert found.split()[1:] == version.split()[1:]
    else:
        assert found == tool


@pytest.mark.parametrize(
    ("said", "of_a_dump", "of_the_tool"),
    [
        (
            "mysqldump: Couldn't execute 'show events': Access denied for user 'dbops'@'localhost' to database 'mysql' (1044)",
            "backup.dump_privilege",
            "backup.privilege",
        ),
        ("Got error: 1045: Access denied for user 'x'@'localhost'", "backup.dump_login", "backup.access_denied"),
    ],
)
def test_judge_backup_names_the_account_that_was_used(said: str, of_a_dump: str, of_the_tool: str) -> None:
    assert code_of(DUMP, {"tool": 2}, log=said)[0] == of_a_dump
    assert code_of(PHYSICAL, {"tool": 2}, log=said)[0] == of_the_tool


@pytest.mark.parametrize("stage", samples.STAGES[DUMP])
def test_judge_backup_fails_when_any_stage_failed(stage: str) -> None:
    assert code_of(DUMP, {stage: 3})[0] == "backup.failed"


@pytest.mark.parametrize("stage", samples.STAGES[PHYSICAL])
def test_judge_backup_fails_when_a_stage_has_no_status(stage: str) -> None:
    stages = dict.fromkeys(set(samples.STAGES[PHYSICAL]) - {stage}, 0)
    with pytest.raises(DbopsError):
        judge_backup(samples.plan(PHYSICAL), ended(0, stages=stages), samples.files(PHYSICAL))


@pytest.mark.parametrize(
    ("method", "files", "said"),
    [
        (PHYSICAL, {"log": "all is well"}, "completed OK!"),
        (PHYSICAL, {"log": ""}, "(nothing)"),
        (PHYSICAL, {"xtrabackup_info": None}, "xtrabackup_info"),
        (PHYSICAL, {"xtrabackup_checkpoints": None}, "checkpoints"),
        (PHYSICAL, {"log": "option 'datadir' has different values\ncompleted OK!"}, "data directory"),
        (PHYSICAL, {"facts": f"bytes=0\nsha256={samples.SHA}"}, "empty"),
        (PHYSICAL, {"facts": "bytes=10\nsha256="}, "checksum"),
        (DUMP, {"end": "INSERT INTO `t` VALUES (1"}, "Dump completed"),
        (DUMP, {"end": None}, "(nothing)"),
        (DUMP, {"log": "mysqldump: Couldn't execute 'SHOW TRIGGERS'"}, "Couldn't execute"),
    ],
)
def test_judge_backup_needs_more_than_zero_statuses(method: BackupMethod, files: dict[str, Any], said: str) -> None:
    code, found = code_of(method, **files)
    assert code == "backup.incomplete"
    assert said in found


def test_judge_backup_keeps_warnings_of_the_dump_tool() -> None:
    assert judged(DUMP, log=DEPRECATED).warnings == (DEPRECATED,)


def test_judge_backup_names_the_first_cause() -> None:
    full = {"write": "tee: /backups/x: No space left on device", "tool": "Broken pipe"}
    assert code_of(PHYSICAL, {"write": 1, "compress": 141, "tool": 1}, full)[0] == "stream.disk_full"
    code, found = code_of(PHYSICAL, {"tool": 137})
    assert code == "backup.killed"
    assert "'tool'" in found
    assert "signal 9" in found


def test_judge_backup_refuses_when_the_host_refuses() -> None:
    state = ended(65, tails={"out": "REFUSED: zstd is not installed on this host"})
    with pytest.raises(Refused) as caught:
        judge_backup(samples.plan(), state, "")
    assert caught.value.code == "backup.refused"
    assert state.tails["out"] == f"REFUSED: {caught.value.cause}"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (vanished(), "backup.vanished"),
        (ended(137), "backup.killed"),
        (ended(70, tails={"out": "FAILED: the disk is ill"}), "backup.failed"),
        (ended(0), "backup.failed"),
    ],
)
def test_judge_backup_fails_when_the_job_ends_before_its_pipe(state: Any, code: str) -> None:
    with pytest.raises(DbopsError) as caught:
        judge_backup(samples.plan(), state, "")
    assert caught.value.code == code
