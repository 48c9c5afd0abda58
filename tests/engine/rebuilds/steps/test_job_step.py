"""How often a job on a host is looked at, by the time that it has lasted, and how its end is known."""

from typing import ClassVar

import pytest

from dbops.engine.errors import Unreachable
from dbops.engine.hosts.jobs import CHECK_SECONDS
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.rebuilds.steps.base import LASTING_CHECK_SECONDS, LASTS_AFTER_SECONDS, JobStep
from dbops.engine.rebuilds.steps.finish.sweep import sweep
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, done
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs


class Work(JobStep):
    name: ClassVar[str] = "work"
    title: ClassVar[str] = "Work"

    def start(self, run: Run) -> JobState:
        return run.start_job(run.target, self.name, "work", "true")

    def finish(self, run: Run, state: JobState) -> StepOutcome:
        return done()


class Watched(FakeJobs):
    """Waits on the clock as a host does, for as long as the job runs."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock, self.waited = clock, list[float]()

    def follow(self, name: str, wait_seconds: float = 0.0, tail_lines: int = 20) -> JobState:
        state = super().follow(name, wait_seconds, tail_lines)
        if state.status is JobStatus.RUNNING:
            self.waited.append(wait_seconds)
            self.clock.sleep(wait_seconds)
        return state


def test_job_step_polls_less_often_with_time_in_any_driver() -> None:
    clock = FakeClock()
    jobs = Watched(clock)
    jobs.play("work", JobState(JobStatus.RUNNING))
    first = make_run(
        build_plan(builders.inputs()),
        jobs,
        source=FakeDatabase(),
        target=FakeDatabase(),
        journal=RecordedJournal(),
        clock=clock,
    )
    began = clock.now()
    while clock.now() - began <= LASTS_AFTER_SECONDS:
        assert not Work().advance(first).done
    assert set(jobs.waited) == {CHECK_SECONDS}
    next_driver = make_run(
        first.plan,
        jobs,
        source=FakeDatabase(),
        target=FakeDatabase(),
        journal=RecordedJournal(),
        clock=clock,
        **first.checkpoint,
    )
    Work().advance(next_driver)
    assert jobs.waited[-1] == LASTING_CHECK_SECONDS
    jobs.job("work").become(JobState(JobStatus.ENDED, 0))
    assert Work().advance(next_driver).done


def test_processes_that_stay_are_neither_cancelled_nor_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    """They sleep in the kernel and may yet write: the holds stay, and the next try ends them."""
    clock, jobs = FakeClock(), FakeJobs()
    jobs.play("work", JobState(JobStatus.RUNNING))
    plan = build_plan(builders.inputs())
    run = make_run(
        plan, jobs, source=FakeDatabase(), target=FakeDatabase(), journal=RecordedJournal(), clock=clock, touched=True
    )
    Work().advance(run)
    with monkeypatch.context() as patched:
        patched.setattr(FakeJobs, "stop", lambda self, name: JobState(JobStatus.RUNNING))
        with pytest.raises(Unreachable) as caught:
            Work().cancel(run)
        assert caught.value.code == "host.not_ended"
        assert "host.not_ended" in {error.code for error in sweep(run, [Work()])}
        assert not run.checkpoint.get("jobs_ended")
    Work().cancel(run)
    assert jobs.host.stopped == ["work"]
