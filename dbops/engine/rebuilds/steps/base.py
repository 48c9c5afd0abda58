"""The shape of a step."""

from abc import ABC, abstractmethod
from typing import ClassVar

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.hosts.jobs import LOOK_SECONDS, DetachedJob
from dbops.engine.hosts.stall import StallLimits, signs_of
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.run import InstanceHandle, Run, StepOutcome, again
from dbops.engine.states import Level

#: What has lasted for a while is looked at half as often: each look costs the worker some 10 ms (measured), and only its progress and
#: a cancel are seen a second later.
LASTING_LOOK_SECONDS = 1.8
LASTS_AFTER_SECONDS = 20.0


class Step(ABC):
    """One unit of work: idempotent, journaled, and ``advance`` returns within a few seconds.

    ``advance`` is called until it is done, by whichever driver owns the rebuild: what it started must be found again,
    never started twice. What has to be remembered goes into ``run.memory``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    #: whether something on the target is destroyed or changed from this step on
    is_destructive: ClassVar[bool] = True
    #: whether a person may end it in the middle; what takes a second and may not be left half done says no
    is_cancellable: ClassVar[bool] = True

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        """Return what this step will run, for the plan's page."""
        return ()

    @abstractmethod
    def advance(self, run: Run) -> StepOutcome: ...

    def cancel(self, run: Run) -> None:
        """End what this step has running on the hosts."""


class JobStep(Step):
    """A step whose work is one detached job on the target, of the same name."""

    @abstractmethod
    def start(self, run: Run) -> JobState: ...

    @abstractmethod
    def finish(self, run: Run, state: JobState) -> StepOutcome: ...

    def follow(self, run: Run, state: JobState) -> None:
        """Tell the progress of the running job."""

    def stall_seconds(self, run: Run) -> float:
        """Return how long the job may show no sign of life in the phase that it is in, 0 for ever."""
        return 0.0

    def signs(self, run: Run, state: JobState) -> str:
        return signs_of(state.counters, state.tails)

    def side(self, run: Run) -> InstanceHandle:
        return run.target

    def advance(self, run: Run) -> StepOutcome:
        if not run.checkpoint.get(f"{self.name}.started"):
            self.start(run)
            run.checkpoint[f"{self.name}.started"] = True
            run.journal.check()
        job = self.job(run)
        state = job.follow(lambda: run.checkpoint.pop(f"{self.name}.started"), self._patience(run))
        if state.status is JobStatus.ABSENT:
            return again()
        if state.status is JobStatus.RUNNING:
            self.follow(run, state)
            limits = StallLimits(run.settings.stall_notice_seconds, self.stall_seconds(run))
            job.watch(state, limits, lambda text: self._warn(run, text), self.signs(run, state))
            return again()
        run.journal.finished(self.name, state.exit_status, _tails(state))
        self.stopped(run, state)
        return self.finish(run, state)

    def _patience(self, run: Run) -> float:
        """Return for how many seconds the next look waits for the job's end."""
        since = run.checkpoint.setdefault(f"{self.name}.looked_since", run.clock.now())
        return LASTING_LOOK_SECONDS if run.clock.now() - since > LASTS_AFTER_SECONDS else LOOK_SECONDS

    def job(self, run: Run) -> DetachedJob:
        watch_key = f"{self.name}.watch"
        jobs = self.side(run).jobs
        return DetachedJob(self.name, jobs, run.clock, run.checkpoint, self._stalled, self._not_ended, watch_key)

    def _warn(self, run: Run, text: str) -> None:
        run.journal.say(text, level=Level.WARNING, host=self.side(run).party.host)

    def _stalled(self, found: str) -> RemoteFailure:
        return RemoteFailure("host.stalled", self.title, cause=found)

    def _not_ended(self, found: str) -> Unreachable:
        return Unreachable("host.not_ended", f"Ending: {self.title}", cause=found)

    def cancel(self, run: Run) -> None:
        """End the job. Asked for even where we do not remember a start: the driver may have died just after it."""
        self.stopped(run, self.job(run).stop())

    def stopped(self, run: Run, state: JobState) -> None:
        """Keep what an ended job can tell: ``memory["<step>.result"]`` becomes the result of a step that ends badly."""
        if state.stages or any(state.tails.values()):
            run.checkpoint.setdefault(f"{self.name}.result", {"exit_statuses": state.stages, "tails": state.tails})


def _tails(state: JobState) -> str:
    return "\n".join(f"== {name}\n{tail}" for name, tail in state.tails.items() if tail)
