"""When replication of a target counts as broken for good."""

import json

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.rebuilds.steps.replicate.replication import CONNECT_SECONDS, fail_on_error
from dbops.engine.rebuilds.steps.run import Run
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs

CONNECTING = builders.link(io_running="Connecting", last_io_error="Access denied for user 'repl'")
CHECK_SECONDS = 2.0


@pytest.fixture
def run() -> Run:
    plan, database = build_plan(builders.inputs()), FakeDatabase()
    return make_run(plan, FakeJobs(), source=database, target=database, journal=RecordedJournal(), clock=FakeClock())


def look(run: Run, times: int) -> None:
    """Look at it as ticks do, in each of which the memory comes back from where it was kept."""
    for _ in range(times):
        kept = json.loads(json.dumps(run.checkpoint))
        run.checkpoint.clear()
        run.checkpoint.update(kept)
        fail_on_error(CONNECTING, "rolling forward", run)
        run.clock.sleep(CHECK_SECONDS)


def test_fail_on_error_fails_after_minutes_without_connection(run: Run) -> None:
    look(run, int(CONNECT_SECONDS / CHECK_SECONDS) + 1)
    with pytest.raises(RemoteFailure) as error:
        look(run, 1)
    assert error.value.code == "replication.error"
    assert "Access denied" in str(error.value)


def test_fail_on_error_ignores_time_without_polls(run: Run) -> None:
    for _ in range(3):
        look(run, 10)
        run.clock.sleep(10 * CONNECT_SECONDS)
    look(run, 10)


def test_fail_on_error_restarts_its_count_after_a_connection(run: Run) -> None:
    half = int(CONNECT_SECONDS / CHECK_SECONDS / 2) + 1
    for _ in range(4):
        look(run, half)
        fail_on_error(builders.link(), "rolling forward", run)
