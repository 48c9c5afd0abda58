"""The shape of a step."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.plan import Plan, PlannedCommand
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.steps.run import Outcome, Run, Side, again

#: Exit status with which our scripts refuse: what they found is not what the plan saw.
REFUSED_STATUS = 65


class Step(ABC):
    """One unit of work: idempotent, journaled, and ``advance`` returns within a few seconds.

    ``advance`` is called until it is done, by whichever driver owns the rebuild: what it started must be found again,
    never started twice. What has to be remembered goes into ``run.memory``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    #: whether something on the target is destroyed or changed from this step on
    is_destructive: ClassVar[bool] = True

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        """Return what this step will run, for the plan's page."""
        return ()

    @abstractmethod
    def advance(self, run: Run) -> Outcome: ...

    def cancel(self, run: Run) -> None:
        """End what this step has running on the hosts."""


class JobStep(Step):
    """A step whose work is one detached job on the target, of the same name."""

    @abstractmethod
    def start(self, run: Run) -> JobState: ...

    @abstractmethod
    def finish(self, run: Run, state: JobState) -> Outcome: ...

    def follow(self, run: Run, state: JobState) -> None:
        """Tell the progress of the running job."""

    def side(self, run: Run) -> Side:
        return run.target

    def advance(self, run: Run) -> Outcome:
        if not run.memory.get(f"{self.name}.started"):
            self.start(run)
            run.memory[f"{self.name}.started"] = True
            run.journal.check()
        state = self.side(run).jobs.follow(self.name, wait_seconds=0.8, tail_lines=40)
        if state.status is JobStatus.RUNNING:
            self.follow(run, state)
            return again()
        if state.status is JobStatus.ABSENT:
            run.memory.pop(f"{self.name}.started")
            return again()
        run.journal.finished(self.name, state.exit_status, _tails(state))
        return self.finish(run, state)

    def cancel(self, run: Run) -> None:
        if run.memory.get(f"{self.name}.started"):
            self.side(run).jobs.stop(self.name)


def _tails(state: JobState) -> str:
    return "\n".join(f"== {name}\n{tail}" for name, tail in state.tails.items() if tail)


def job_must_succeed(state: JobState, doing: str, *, left: Callable[[], str] = str) -> None:
    """Raise what a finished job's status means: ``Refused`` (``host.refused``) or ``RemoteFailure`` (``host.job``)."""
    output = state.tails.get("out", "").strip()
    last = output.splitlines()[-1] if output else ""
    if state.status is JobStatus.VANISHED:
        raise RemoteFailure(
            "host.vanished",
            doing,
            found="the process is gone and left no exit status (killed, or the host was restarted)",
            left=left(),
            next_step="Look at the host's system log, then rebuild again.",
        )
    if state.exit_status == REFUSED_STATUS and last.startswith("REFUSED: "):
        raise Refused(
            "host.refused",
            doing,
            found=last.removeprefix("REFUSED: "),
            left=left() or "Nothing was changed.",
            next_step="Look at the host, wait for a fresh probe, and plan again.",
        )
    if state.exit_status != 0:
        raise RemoteFailure(
            "host.job",
            doing,
            found=last.removeprefix("FAILED: ") or f"exit status {state.exit_status}",
            left=left(),
            next_step="Mend the cause on the host, then rebuild again.",
        )
