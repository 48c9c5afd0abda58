"""Attaching the copy to its leader: what is attached is known by the run's mark."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.rebuilds.follow_ups import EndedRebuild, remembered
from dbops.engine.rebuilds.steps.replicate.catch_up import CatchUp
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.states import Status, StepState
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs

UUID = "01e99e0d-e8a3-11f1-bbc5-02fc00000001"
START = f"{UUID}:1-20"
PRIMARY = "10.0.0.11"


def link_row(host: str = PRIMARY, user: str = "user", auto_position: str = "1") -> dict[str, Any]:
    """A connection as the copy of a replica has it: stopped, without an error."""
    return {
        "Master_Host": host,
        "Master_Port": 3306,
        "Master_User": user,
        "Auto_Position": auto_position,
        "Slave_IO_Running": "No",
        "Slave_SQL_Running": "No",
        "Relay_Master_Log_File": "binlog.000001",
        "Exec_Master_Log_Pos": 4,
        "Last_IO_Error": "",
        "Last_SQL_Error": "",
        "Channel_Name": "",
    }


def catch_up(row: dict[str, Any], *, uses_gtid: bool = True, **checkpoint: Any) -> tuple[Run, FakeDatabase]:
    """Return a run on MySQL 5.7 and the copy's server; the copy follows the primary, as that of a finished backup."""
    made = build_plan(builders.inputs())
    plan = replace(
        made, flavor="mysql", source=replace(made.source, version="5.7.29"), uses_gtid=uses_gtid, skips_source=True
    )
    target = FakeDatabase()
    target.expect("SHOW SLAVE STATUS", [row])
    target.expect("gtid_executed", [{"executed": "", "logged": ""}])
    target.expect("SHOW GLOBAL VARIABLES", [])
    target.expect("AS here", [{"here": 1}])
    position = {"log_file": "binlog.000002", "log_pos": 4, "gtid": START if uses_gtid else ""}
    run = make_run(
        plan,
        FakeJobs(),
        source=FakeDatabase(),
        target=target,
        journal=RecordedJournal(),
        clock=FakeClock(),
        position=position,
        **checkpoint,
    )
    return run, target


def attaches(target: FakeDatabase) -> bool:
    """Return whether the copy forgot its links, got the position of the backup and was pointed to its leader, in this order."""
    words = ("STOP SLAVE", "RESET SLAVE ALL", "RESET MASTER", "SET GLOBAL gtid_purged", "CHANGE MASTER", "START SLAVE")
    said = [sql for sql in target.statements if sql.startswith(words)]
    return [next(word for word in words if sql.startswith(word)) for sql in said] == list(words)


@pytest.mark.parametrize("copy_run", [None, "another"], ids=["rebuild", "retry"])
def test_copied_link_to_the_leader_is_forgotten(copy_run: str | None) -> None:
    run, target = catch_up(link_row(), **({"copy_run": copy_run} if copy_run else {}))
    CatchUp().advance(run)
    assert attaches(target)


def test_own_link_is_started_and_not_attached_again() -> None:
    run, target = catch_up(link_row())
    CatchUp().advance(run)
    target.executed.clear()
    CatchUp().advance(run)
    assert not any(sql.startswith(("RESET", "CHANGE")) for sql in target.statements)
    assert "START SLAVE" in target.statements


@pytest.mark.parametrize("row", [link_row(user="other"), link_row(auto_position="0"), link_row(host="10.0.0.99")])
def test_link_of_another_account_or_kind_is_not_ours(row: dict[str, Any]) -> None:
    run, target = catch_up(row, attached=True)
    CatchUp().advance(run)
    assert attaches(target)


def test_retry_knows_the_link_of_the_rebuild_before() -> None:
    run, _ = catch_up(link_row())
    CatchUp().advance(run)
    ended = EndedRebuild(run.run_id, Status.FAILED, run.checkpoint, {"start": StepState.DONE})
    retry, target = catch_up(
        link_row(), **{key: value for key, value in remembered(ended).items() if key != "position"}
    )
    CatchUp().advance(retry)
    assert not any(sql.startswith(("RESET", "CHANGE")) for sql in target.statements)


def test_copy_without_gtid_that_was_repointed_is_not_attached_again() -> None:
    run, target = catch_up(link_row(host="10.0.0.99", auto_position="0"), uses_gtid=False, attached=True)
    with pytest.raises(RemoteFailure) as error:
        CatchUp().advance(run)
    assert error.value.code == "replication.changed"
    assert not any(sql.startswith(("RESET", "CHANGE")) for sql in target.statements)
