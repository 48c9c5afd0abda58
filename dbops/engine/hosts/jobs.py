"""Find, follow and stop a detached job on a host, and interpret its exit status."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from dbops.engine.errors import Refused, RemoteFailure, Unreachable
from dbops.engine.hosts.stall import StallLimits, check_stall, signs_of
from dbops.engine.phrases import phrase
from dbops.engine.ports import Clock, Jobs, JobState, JobStatus
from dbops.engine.states import Level

#: Our scripts need bash; the commands that a shell runs are POSIX sh.
IN_BASH = 'script=$1; shift; exec bash -c "$script" dbops "$@"'


def pairs(text: str) -> dict[str, str]:
    """Return ``key=value`` lines of a script's output as a dictionary."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


#: Exit status of our scripts for a refusal: the host does not match the plan.
REFUSED_STATUS = 65


def reason_of(state: JobState) -> str:
    """Return the line with which a job says why it ended: its last ``FAILED`` or ``REFUSED``, else its last line.

    The shell may print more afterwards, for example that it killed a process on its way out.
    """
    lines = state.tails.get("out", "").strip().splitlines()
    given = [line for line in lines if line.startswith(("FAILED: ", "REFUSED: "))]
    return (given or lines or [""])[-1]


def job_must_succeed(state: JobState, operation: str, *, left: Callable[[], str] = str) -> None:
    """Raise the error for a finished job's status: ``Refused`` (``host.refused``) or ``RemoteFailure`` (``host.job``)."""
    last = reason_of(state)
    if state.status is JobStatus.VANISHED:
        raise RemoteFailure(
            "host.vanished",
            operation,
            cause=phrase("the process ended without an exit status (killed, or the host restarted)"),
            state=left(),
        )
    if state.exit_status == REFUSED_STATUS and last.startswith("REFUSED: "):
        raise Refused(
            "host.refused",
            operation,
            cause=last.removeprefix("REFUSED: "),
            state=left(),
        )
    if state.exit_status != 0:
        raise RemoteFailure(
            "host.job",
            operation,
            cause=last.removeprefix("FAILED: ") or phrase("exit status {exit_status}", exit_status=state.exit_status),
            state=left(),
        )


class RunJournal(Protocol):
    """Report of the work; collected, and written with the heartbeat."""

    def say(self, text: str, *, level: Level = Level.INFO) -> None: ...

    def progress(self, **known: Any) -> None: ...

    def flush(self) -> None:
        """Write the collected report now. Raises ``Cancelled``, or the driver's own error after it lost the run."""
        ...

    def check(self) -> None:
        """Flush at most once a second."""
        ...


#: Maximum wait on the host for a job's end, which is noticed at once.
CHECK_SECONDS = 0.8
TAIL_LINES = 40


@dataclass(frozen=True, slots=True)
class DetachedJob:
    """A job that is started once, and that every later driver finds by its name.

    Args:
        memory: plain data that survives the driver; ``watch_key`` has the last check.
        stalled: makes the error of a stalled job, from the duration in words.
        not_ended: makes the error of a job that cannot be ended, from a description of its processes.
    """

    name: str
    jobs: Jobs
    clock: Clock
    checkpoint: dict[str, Any]
    stalled: Callable[[str], RemoteFailure]
    not_ended: Callable[[str], Unreachable]
    watch_key: str = "watch"

    def begin(self, journal: RunJournal, before: Callable[[], None]) -> None:
        """Note once that the job may run from now on (``memory["asked"]``): an unreachable host is noticed before the start.

        Args:
            journal: keeps the note before the job is started.
            before: called before the note.
        """
        if not self.checkpoint.get("asked"):
            self.jobs.follow(self.name)
            before()
            self.checkpoint["asked"] = True
            journal.flush()

    def follow(self, start: Callable[[], Any], wait_seconds: float = CHECK_SECONDS) -> JobState:
        """Return the job's state. A missing job is started; its state is ``ABSENT`` until the next check."""
        state = self.jobs.follow(self.name, wait_seconds=wait_seconds, tail_lines=TAIL_LINES)
        if state.status is JobStatus.ABSENT:
            start()
        return state

    def watch(self, state: JobState, limits: StallLimits, say: Callable[[str], None], signs: str = "") -> None:
        """Report silence, and raise ``stalled`` for a job without progress for too long.

        Args:
            state: of the running job.
            limits: of the job's current phase.
            say: writes a warning into the history.
            signs: of life; empty for the job's counters and logs.
        """
        signs = signs or signs_of(state.counters, state.tails)
        check = check_stall(self.checkpoint.get(self.watch_key), signs, self.clock.now(), limits)
        self.checkpoint[self.watch_key] = check.checkpoint
        if check.needs_notice:
            limit = (
                phrase("; after {seconds} s it counts as stalled", seconds=f"{limits.limit_seconds:.0f}")
                if limits.limit_seconds
                else ""
            )
            say(
                phrase(
                    "No progress for {seconds} s: no bytes, no log lines{limit}.",
                    seconds=f"{check.silent_seconds:.0f}",
                    limit=limit,
                )
            )
        if check.is_stalled:
            raise self.stalled(f"no byte and no line of a log for {check.silent_seconds:.0f} s")

    def stop(self) -> JobState:
        """End the job; can be repeated. Raises errors of ``Jobs``, and ``not_ended`` while it cannot be ended.

        Such a job sleeps in the kernel, on a disk or network file system that does not answer, and may still write.
        """
        state = self.jobs.stop(self.name)
        if state.status is JobStatus.RUNNING:
            raise self.not_ended("processes did not exit after SIGKILL")
        return state
