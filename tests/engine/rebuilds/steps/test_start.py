"""Start of the server on a copy: what is remembered of it, and how long it may take."""

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.start.prepare_and_start import StartServer
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs

RUNNING = JobState(JobStatus.RUNNING)
STARTING = JobState(JobStatus.RUNNING, tails={"phase": "starting"})


@pytest.fixture
def run() -> Run:
    target = FakeDatabase()
    target.expect("@@server_id", [{"server_id": 99, "port": 1, "datadir": "/elsewhere/", "read_only": 1}])
    return make_run(
        build_plan(builders.inputs()),
        FakeJobs(),
        source=FakeDatabase(),
        target=target,
        journal=RecordedJournal(),
        clock=FakeClock(),
        new_identity="1:2",
        copy_run="0123456789abcdef",
    )


def test_server_has_the_whole_time_after_the_copy_is_quiet(run: Run) -> None:
    step, limit = StartServer(), run.settings.start_timeout_seconds
    step.start(run)
    run.clock.sleep(limit - 1)
    step.follow(run, RUNNING)
    step.follow(run, STARTING)
    run.clock.sleep(limit - 1)
    step.follow(run, STARTING)
    run.clock.sleep(2)
    with pytest.raises(RemoteFailure) as error:
        step.follow(run, STARTING)
    assert error.value.code == "start.timeout"


def test_quiet_copy_is_remembered_whatever_the_started_server_is(run: Run) -> None:
    with pytest.raises(RemoteFailure) as error:
        StartServer().finish(run, JobState(JobStatus.ENDED, exit_status=0))
    assert error.value.code == "start.identity"
    assert run.checkpoint["quieted"]


@pytest.mark.parametrize(("tail", "named"), [("shop.one\nshop.two\n", "shop.one, shop.two"), ("\n", None), ("", None)])
def test_disabled_events_are_named(run: Run, tail: str, named: str | None) -> None:
    with pytest.raises(RemoteFailure):
        StartServer().finish(run, JobState(JobStatus.ENDED, exit_status=0, tails={"events": tail}))
    assert isinstance(run.journal, RecordedJournal)
    assert [line.rpartition(": ")[2] for line in run.journal.lines] == ([f"{named}."] if named else [])
