"""Define the interface of a step."""

from abc import ABC, abstractmethod
from typing import ClassVar

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.hosts.jobs import CHECK_SECONDS, DetachedJob
from dbops.engine.hosts.stall import StallLimits, signs_of
from dbops.engine.phrases import phrase
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.run import InstanceHandle, Run, StepOutcome, again
from dbops.engine.states import Level

#: A job that has run for a while is checked half as often: each check costs the worker some 10 ms (measured), and only its progress and
#: a cancel appear a second later.
LASTING_CHECK_SECONDS = 1.8
LASTS_AFTER_SECONDS = 20.0


class Step(ABC):
    """One unit of work: idempotent, journaled, and ``advance`` returns within a few seconds.

    ``advance`` is called until the step is done, by the driver that currently owns the rebuild. Work that it started must be found
    again, never started twice. Values to remember go into ``run.checkpoint``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    #: whether this step and later ones destroy or change something on the target
    is_destructive: ClassVar[bool] = True
    #: whether a person may cancel it midway; false for steps that take a second and may not be left incomplete
    is_cancellable: ClassVar[bool] = True

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        """Return the commands of this step for the plan page."""
        return ()

    @abstractmethod
    def advance(self, run: Run) -> StepOutcome: ...

    def cancel(self, run: Run) -> None:
        """End the running work of this step on the hosts."""


class JobStep(Step):
    """A step that consists of one detached job of the same name on the target."""

    @abstractmethod
    def start(self, run: Run) -> JobState: ...

    @abstractmethod
    def finish(self, run: Run, state: JobState) -> StepOutcome: ...

    def follow(self, run: Run, state: JobState) -> None:
        """Record the progress of the running job."""

    def stall_seconds(self, run: Run) -> float:
        """Return how long the job may show no sign of life in its current phase, 0 for no limit."""
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
        """Return for how many seconds the next check waits for the job's end."""
        since = run.checkpoint.setdefault(f"{self.name}.followed_since", run.clock.now())
        return LASTING_CHECK_SECONDS if run.clock.now() - since > LASTS_AFTER_SECONDS else CHECK_SECONDS

    def job(self, run: Run) -> DetachedJob:
        watch_key = f"{self.name}.watch"
        jobs = self.side(run).jobs
        return DetachedJob(self.name, jobs, run.clock, run.checkpoint, self._stalled, self._not_ended, watch_key)

    def _warn(self, run: Run, text: str) -> None:
        run.journal.say(text, level=Level.WARNING, host=self.side(run).party.host)

    def _stalled(self, found: str) -> RemoteFailure:
        return RemoteFailure("host.stalled", self.title, cause=found)

    def _not_ended(self, found: str) -> Unreachable:
        return Unreachable("host.not_ended", phrase("Ending: {title}", title=self.title), cause=found)

    def cancel(self, run: Run) -> None:
        """End the job, even if no start is remembered: the driver may have died just after the start."""
        self.stopped(run, self.job(run).stop())

    def stopped(self, run: Run, state: JobState) -> None:
        """Keep the findings of an ended job: ``checkpoint["<step>.result"]`` becomes the result of a failed step."""
        if state.stages or any(state.tails.values()):
            run.checkpoint.setdefault(f"{self.name}.result", {"exit_statuses": state.stages, "tails": state.tails})


def _tails(state: JobState) -> str:
    return "\n".join(f"== {name}\n{tail}" for name, tail in state.tails.items() if tail)
