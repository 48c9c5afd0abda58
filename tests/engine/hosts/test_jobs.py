"""One frame for detached jobs: started once, found again, watched, and seen to end."""

from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.hosts.jobs import DetachedJob
from dbops.engine.hosts.stall import StallLimits
from dbops.engine.ports import JobState, JobStatus
from tests.fakes import FakeClock, FakeJobs, running


class Flushed:
    """A journal that counts its writes."""

    def __init__(self) -> None:
        self.writes = 0

    def say(self, text: str, *, level: Any = None) -> None: ...

    def progress(self, **known: Any) -> None: ...

    def check(self) -> None: ...

    def flush(self) -> None:
        self.writes += 1


def frame(checkpoint: dict[str, Any] | None = None) -> DetachedJob:
    return DetachedJob(
        "work",
        FakeJobs(),
        FakeClock(),
        {} if checkpoint is None else checkpoint,
        lambda found: RemoteFailure("test.stalled", "Working", cause=found),
        lambda found: Unreachable("test.not_ended", "Ending", cause=found),
    )


def never() -> None:
    raise AssertionError


def test_a_silent_host_is_met_before_anything_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: FakeJobs, name: str) -> JobState:
        raise Unreachable("ssh.unreachable", "Asking", cause="timed out")

    monkeypatch.setattr(FakeJobs, "follow", away)
    job, journal = frame(), Flushed()
    with pytest.raises(Unreachable):
        job.begin(journal, never)
    assert (job.checkpoint, journal.writes) == ({}, 0)


def test_the_note_is_kept_once_and_what_comes_before_it_is_done_once() -> None:
    job, journal, before = frame(), Flushed(), list[bool]()
    for _ in range(2):
        job.begin(journal, lambda: before.append("asked" in job.checkpoint))
    assert (job.checkpoint["asked"], journal.writes, before) == (True, 1, [False])


def test_a_job_that_is_not_there_is_started_and_one_that_runs_is_not() -> None:
    job = frame()
    assert isinstance(job.jobs, FakeJobs)
    job.jobs.play("work", running())
    assert job.follow(lambda: job.jobs.start("work", "script")).status is JobStatus.ABSENT
    assert job.follow(never).status is JobStatus.RUNNING
    assert job.jobs.started == ["work"]


def test_silence_is_reported_once_and_then_ends_the_job() -> None:
    job, found = frame(), list[str]()
    state, limits = JobState(JobStatus.RUNNING, counters={"read_bytes": 1}), StallLimits(60, 300)
    for second in (0, 100, 200):
        job.clock.time = second  # type: ignore[attr-defined]
        job.watch(state, limits, found.append)
    assert len(found) == 1
    job.clock.time = 300  # type: ignore[attr-defined]
    with pytest.raises(RemoteFailure) as caught:
        job.watch(state, limits, found.append)
    assert caught.value.code == "test.stalled"


def test_signs_of_the_caller_replace_the_counters() -> None:
    job, found = frame(), list[str]()
    for second in (0, 400):
        job.clock.time = second  # type: ignore[attr-defined]
        state = JobState(JobStatus.RUNNING, counters={"read_bytes": 1})
        job.watch(state, StallLimits(60, 300), found.append, signs=str(second))
    assert found == []


def test_a_job_whose_processes_stay_is_not_taken_for_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeJobs, "stop", lambda self, name: JobState(JobStatus.RUNNING))
    with pytest.raises(Unreachable) as caught:
        frame().stop()
    assert caught.value.code == "test.not_ended"
