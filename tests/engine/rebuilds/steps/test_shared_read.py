"""Waits among rebuilds of a shared read. For the sender see tests/drivers/test_shared_read_sender.py."""

from dataclasses import dataclass, field

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.hosts.scripts import load
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.rebuilds.copy_check import CopyEvidence
from dbops.engine.rebuilds.shared_read import (
    BEGUN,
    FOLLOWERS,
    SharedReadMember,
    SharedReadPhase,
    phase_of_follower,
    phase_of_leader,
)
from dbops.engine.rebuilds.steps.copy import shared_read
from dbops.engine.states import Status, StepState
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs


@dataclass
class Shared:
    """Members that a test sets."""

    read_by: SharedReadMember | None = None
    others: list[SharedReadMember] = field(default_factory=list)

    def leader(self) -> SharedReadMember | None:
        return self.read_by

    def followers(self) -> list[SharedReadMember]:
        return self.others


def other(phase: SharedReadPhase, followers: tuple[str, ...] | None = None) -> SharedReadMember:
    return SharedReadMember(7, "b" * 16, "replica-2", phase, followers)


def run_with(shared: Shared, **checkpoint: object):  # type: ignore[no-untyped-def]
    plan, jobs = build_plan(builders.inputs()), FakeJobs()
    nothing = {"source": FakeDatabase(), "target": FakeDatabase(), "journal": RecordedJournal(), "clock": FakeClock()}
    run = make_run(plan, jobs, **nothing, **checkpoint)  # type: ignore[arg-type]
    run.shared_read_members = shared
    return run


def test_settle_is_immediate_when_the_leader_is_alone() -> None:
    run = run_with(Shared())
    assert shared_read.settle(run)
    assert run.checkpoint[FOLLOWERS] == {}
    assert not shared_read.is_leader(run)


def test_settle_waits_for_a_stopping_follower_and_not_for_an_ended_one() -> None:
    shared = Shared(others=[other(SharedReadPhase.COMING)])
    run = run_with(shared)
    assert not shared_read.settle(run)
    shared.others = [other(SharedReadPhase.READY)]
    assert shared_read.settle(run)
    assert shared_read.is_leader(run)
    shared.others = [other(SharedReadPhase.GONE)]
    assert shared_read.settle(run), "what was settled stays"
    assert run.checkpoint[FOLLOWERS] == {"b" * 16: "replica-2"}


@pytest.mark.parametrize(
    ("phase", "patience"),
    [(SharedReadPhase.QUEUED, shared_read.QUEUED_PATIENCE_SECONDS), (SharedReadPhase.COMING, 900.0)],
)
def test_settle_times_out(phase: SharedReadPhase, patience: float) -> None:
    run = run_with(Shared(others=[other(phase)]))
    assert not shared_read.settle(run)
    run.clock.sleep(patience - 1)
    assert not shared_read.settle(run)
    run.clock.sleep(2)
    assert shared_read.settle(run)
    assert run.checkpoint[FOLLOWERS] == {}


def test_follower_waits_with_its_swap_for_the_leader() -> None:
    shared = Shared(other(SharedReadPhase.COMING))
    run = run_with(shared)
    assert not shared_read.may_swap_datadir(run)
    shared.read_by = other(SharedReadPhase.READY)
    assert shared_read.may_swap_datadir(run)


@pytest.mark.parametrize(
    ("leader", "code"),
    [
        (other(SharedReadPhase.GONE), "shared.no_read"),
        (other(SharedReadPhase.READING, ()), "shared.missed"),
        (other(SharedReadPhase.GONE, ()), "shared.missed"),
        (other(SharedReadPhase.READY, ("c" * 16,)), "shared.missed"),
    ],
)
def test_dropped_follower_changes_nothing(leader: SharedReadMember, code: str) -> None:
    run = run_with(Shared(leader))
    with pytest.raises(RemoteFailure) as raised:
        shared_read.may_swap_datadir(run)
    assert raised.value.code == code
    assert "was changed" in raised.value.state


def test_follower_streams_when_the_leader_reads_for_it() -> None:
    shared = Shared(other(SharedReadPhase.READY))
    run = run_with(shared, touched=True)
    assert not shared_read.may_stream(run)
    shared.read_by = other(SharedReadPhase.READING, (run.run_id,))
    assert shared_read.may_stream(run)


STEPS = {"swap-datadir": StepState.PENDING, "stream": StepState.PENDING}


@pytest.mark.parametrize(
    ("status", "pending_status", "steps", "checkpoint", "phase"),
    [
        ("queued", "", {}, {}, SharedReadPhase.QUEUED),
        ("running", "", {}, {}, SharedReadPhase.COMING),
        ("running", "", {"swap-datadir": StepState.DONE}, {}, SharedReadPhase.READY),
        ("running", "", {"swap-datadir": StepState.DONE}, {FOLLOWERS: {}}, SharedReadPhase.READY),
        ("running", "", {"swap-datadir": StepState.DONE}, {FOLLOWERS: {}, BEGUN: True}, SharedReadPhase.READING),
        ("running", "failed", {"swap-datadir": StepState.DONE}, {FOLLOWERS: {}, BEGUN: True}, SharedReadPhase.READING),
        ("running", "failed", {}, {}, SharedReadPhase.GONE),
        ("running", "", {"stream": StepState.DONE}, {BEGUN: True}, SharedReadPhase.GONE),
        ("failed", "failed", {}, {BEGUN: True}, SharedReadPhase.GONE),
        ("lost", "", {"swap-datadir": StepState.DONE}, {BEGUN: True}, SharedReadPhase.READING),
    ],
)
def test_phase_of_leader_follows_its_steps(
    status: str, pending_status: str, steps: dict[str, StepState], checkpoint: dict[str, object], phase: SharedReadPhase
) -> None:
    assert phase_of_leader(Status(status), pending_status, STEPS | steps, checkpoint) is phase


@pytest.mark.parametrize(
    ("status", "pending_status", "stream", "phase"),
    [
        ("queued", "", StepState.PENDING, SharedReadPhase.QUEUED),
        ("running", "", StepState.PENDING, SharedReadPhase.COMING),
        ("running", "", StepState.RUNNING, SharedReadPhase.READY),
        ("running", "cancelled", StepState.RUNNING, SharedReadPhase.GONE),
        ("failed", "failed", StepState.FAILED, SharedReadPhase.GONE),
    ],
)
def test_phase_of_follower_follows_its_stream(
    status: str, pending_status: str, stream: StepState, phase: SharedReadPhase
) -> None:
    assert phase_of_follower(Status(status), pending_status, {"stream": stream}) is phase


DROPPED = "dbops: dropped after 4096 bytes: its connection broke: Broken pipe\n"


@pytest.mark.parametrize("unpack_log", ["", "mbstream: unexpected end of file\n"])
def test_refuse_dropped_uses_the_status_of_the_sender_first(unpack_log: str) -> None:
    with pytest.raises(RemoteFailure) as raised:
        shared_read.refuse_dropped(run_with(Shared()), CopyEvidence(0, 74, 1, "", DROPPED, unpack_log))
    assert raised.value.code == "shared.dropped"


@pytest.mark.parametrize(
    ("unpack_status", "unpack_log"),
    [(1, "mbstream: Error writing file './a.ibd' (Errcode: 28 \"No space left on device\")\n"), (137, "")],
)
def test_refuse_dropped_passes_when_the_target_has_its_own_error(unpack_status: int, unpack_log: str) -> None:
    """Sending again does not help against a full disk."""
    shared_read.refuse_dropped(run_with(Shared()), CopyEvidence(0, 74, unpack_status, "", DROPPED, unpack_log))


def sending(shared: Shared, **checkpoint: object):  # type: ignore[no-untyped-def]
    """A leader with the follower replica-2, whose sender began ten seconds ago."""
    run = run_with(shared, **{FOLLOWERS: {"b" * 16: "replica-2"}, BEGUN: True, **checkpoint})
    run.source.jobs.play(shared_read.SEND_JOB, JobState(JobStatus.RUNNING))
    run.source.jobs.start(shared_read.SEND_JOB, "send")
    run.checkpoint.setdefault("shared_read.begun_at", run.clock.now())
    run.clock.sleep(10)
    return run


def gone(run) -> list[str]:  # type: ignore[no-untyped-def]
    return [act.arguments[1] for act in run.source.jobs.acts if act.arguments[0] == load("drop_target")]


def test_follow_sender_reports_an_ended_follower_once() -> None:
    shared = Shared(others=[other(SharedReadPhase.COMING)])
    run = sending(shared)
    shared_read.follow_sender(run)
    assert gone(run) == []
    shared.others = [other(SharedReadPhase.GONE)]
    shared_read.follow_sender(run)
    shared_read.follow_sender(run)
    assert gone(run) == ["b" * 16]


def test_give_back_reports_itself_when_it_ends_early() -> None:
    run = sending(Shared(others=[other(SharedReadPhase.READY)]))
    assert not shared_read.give_back(run)
    assert gone(run) == [run.run_id]


def test_follow_sender_reports_nothing_for_strangers_or_after_the_wait() -> None:
    run = sending(Shared(others=[SharedReadMember(8, "c" * 16, "replica-3", SharedReadPhase.GONE)]))
    shared_read.follow_sender(run)
    run.clock.sleep(shared_read.CONNECT_SECONDS)
    run.shared_read_members = Shared(others=[other(SharedReadPhase.GONE)])
    shared_read.follow_sender(run)
    assert gone(run) == []
