"""A detached job on a host: how its script reports, what its exit status means, and how long silence is accepted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.states import Level

#: Our scripts are bash; what a shell runs is POSIX sh.
IN_BASH = 'script=$1; shift; exec bash -c "$script" dbops "$@"'


def pairs(text: str) -> dict[str, str]:
    """Return ``key=value`` lines of a script's output as a dictionary."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


#: Exit status with which our scripts refuse: what they found is not what the plan saw.
REFUSED_STATUS = 65


def job_must_succeed(state: JobState, doing: str, *, left: Callable[[], str] = str) -> None:
    """Raise what a finished job's status means: ``Refused`` (``host.refused``) or ``RemoteFailure`` (``host.job``)."""
    output = state.tails.get("out", "").strip()
    last = output.splitlines()[-1] if output else ""
    if state.status is JobStatus.VANISHED:
        raise RemoteFailure(
            "host.vanished",
            doing,
            cause="the process ended without an exit status (killed, or the host restarted)",
            state=left(),
        )
    if state.exit_status == REFUSED_STATUS and last.startswith("REFUSED: "):
        raise Refused(
            "host.refused",
            doing,
            cause=last.removeprefix("REFUSED: "),
            state=left(),
        )
    if state.exit_status != 0:
        raise RemoteFailure(
            "host.job",
            doing,
            cause=last.removeprefix("FAILED: ") or f"exit status {state.exit_status}",
            state=left(),
        )


class RunJournal(Protocol):
    """How the work tells what it does; gathered, and written with the heartbeat."""

    def say(self, text: str, *, level: Level = Level.INFO) -> None: ...

    def progress(self, **known: Any) -> None: ...

    def flush(self) -> None:
        """Write what is gathered, now. Raises ``Cancelled``, or the driver's own error when it owns the run no more."""
        ...

    def check(self) -> None:
        """As ``flush``, at most once a second."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds without a byte or a line after which it is told, and after which the job is ended."""

    notice_seconds: float = 60.0
    limit_seconds: float = 1800.0
