"""What a rebuild saves about its data directory swap: a refusal at the first try only."""

import pytest

from dbops.engine.errors import Refused
from dbops.engine.hosts.jobs import REFUSED_STATUS
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.run import Run
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs

REFUSED = JobState(JobStatus.ENDED, REFUSED_STATUS, {}, {}, {"out": "REFUSED: it takes writes now.\n"})


def refused(jobs: FakeJobs, **checkpoint: object) -> Run:
    target = FakeDatabase()
    target.expect("mysql.event", [])
    nothing = {"source": FakeDatabase(), "target": target, "journal": RecordedJournal(), "clock": FakeClock()}
    run = make_run(build_plan(builders.inputs()), jobs, **nothing, **checkpoint)  # type: ignore[arg-type]
    SwapDatadir().start(run)
    run.checkpoint["swap-datadir.started"] = True
    with pytest.raises(Refused) as told:
        SwapDatadir().advance(run)
    assert told.value.code == "host.refused"
    return run


def test_swap_saves_a_refusal() -> None:
    jobs = FakeJobs()
    jobs.play("swap-datadir", REFUSED)
    assert refused(jobs).checkpoint["refused"]


def test_swap_saves_no_refusal_at_the_second_try() -> None:
    """The host was restarted in the middle and has forgotten the job: what it refuses now may be what the first one did."""
    jobs = FakeJobs()
    jobs.play("swap-datadir", REFUSED)
    assert "refused" not in refused(jobs, touched=True).checkpoint
