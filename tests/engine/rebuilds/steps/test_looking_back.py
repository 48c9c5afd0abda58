"""Before old data goes back, and while a copy rolls forward: what the host shows decides, not what was remembered."""

from typing import Any

import pytest

from dbops.engine.errors import Refused, RemoteFailure, Unreachable
from dbops.engine.ports import CommandResult
from dbops.engine.rebuilds.steps.finish.rollback import FindOldData
from dbops.engine.rebuilds.steps.replicate.replication import SERVER_GONE_SECONDS, target_database
from dbops.engine.rebuilds.steps.run import Run
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs

PLAN = build_plan(builders.inputs())
OLD = PLAN.target.datadir_identity


def run_on(jobs: FakeJobs, target: FakeDatabase | None = None, **checkpoint: Any) -> Run:
    return make_run(
        PLAN,
        jobs,
        source=FakeDatabase(),
        target=target or FakeDatabase(),
        journal=RecordedJournal(),
        clock=FakeClock(),
        **checkpoint,
    )


def host_that_shows(**found: str) -> FakeJobs:
    jobs = FakeJobs()
    jobs.expect("say_whether empty", CommandResult(0, "".join(f"{key}={value}\n" for key, value in found.items()), ""))
    return jobs


def test_find_old_data_accepts_it_aside() -> None:
    jobs = host_that_shows(datadir="8:99", new="1", aside=OLD)
    assert FindOldData().advance(run_on(jobs, aside_identity=OLD)).done


def test_old_data_that_is_back_already_is_only_started() -> None:
    jobs = host_that_shows(datadir=OLD, new="", aside="")
    assert FindOldData().advance(run_on(jobs, aside_identity=OLD)).done


@pytest.mark.parametrize(
    "found",
    [
        {"datadir": "8:99", "new": "1", "aside": "8:100"},
        {"datadir": "8:99", "new": "1", "aside": ""},
        {"datadir": "8:101", "new": "", "aside": ""},
        {"datadir": OLD, "new": "1", "aside": ""},
    ],
)
def test_any_other_directory_is_refused(found: dict[str, str]) -> None:
    with pytest.raises(Refused) as caught:
        FindOldData().advance(run_on(host_that_shows(**found), aside_identity=OLD))
    assert caught.value.code == "old.not_found"


def ask(run: Run) -> None:
    with target_database(run) as database:
        database.query("SELECT 1")


def gone() -> FakeDatabase:
    database = FakeDatabase()
    database.down = Unreachable("mysql.unreachable", "Asking", cause="connection refused")
    return database


def test_ask_fails_one_minute_after_the_server_died() -> None:
    run = run_on(host_that_shows(datadir="8:99", new="1", pids=""), gone(), touched=True)
    with pytest.raises(Unreachable):
        ask(run)
    run.clock.sleep(SERVER_GONE_SECONDS + 1)
    with pytest.raises(RemoteFailure) as caught:
        ask(run)
    assert caught.value.code == "target.server_died"


def test_ask_keeps_waiting_when_the_process_is_alive() -> None:
    run = run_on(host_that_shows(datadir="8:99", new="1", pids="4711 "), gone(), touched=True)
    for _ in range(3):
        with pytest.raises(Unreachable):
            ask(run)
        run.clock.sleep(SERVER_GONE_SECONDS + 1)


def test_ask_keeps_waiting_when_the_host_is_silent() -> None:
    jobs = FakeJobs()
    jobs.expect("say_whether empty", Unreachable("ssh.unreachable", "Asking", cause="timed out"))
    run = run_on(jobs, gone(), touched=True)
    for _ in range(3):
        with pytest.raises(Unreachable):
            ask(run)
        run.clock.sleep(SERVER_GONE_SECONDS + 1)
