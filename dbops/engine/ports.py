"""Interfaces of the engine to hosts and servers, implemented by the drivers and by ``tests/fakes.py``."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a finished command.

    ``exit_status`` is ``None`` if unknown (the connection was lost, or a signal ended the command). This is neither success nor
    failure, and the caller checks the host again.
    """

    exit_status: int | None
    stdout: str
    stderr: str


class Shell(Protocol):
    """Run short commands on one host, over one pinned connection."""

    def run(self, script: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 10.0) -> CommandResult:
        """Run a POSIX shell script with positional arguments (as root through sudo if the host requires it).

        Args:
            script: constant text; variable parts come as ``"$1"``, ``"$2"``, never spliced in.
            arguments: positional arguments, any text without NUL; quoted by the driver.
            stdin: standard input of the script; the only way to pass a secret.
            timeout_seconds: for the whole command.

        Raises:
            Unreachable: the host could not be reached, or did not answer in time.
            Refused: the host key is unknown or changed; an argument holds a NUL byte.
        """
        ...


class JobStatus(StrEnum):
    """State of a detached job. ``VANISHED``: it started, is gone, and left no exit status (killed, host rebooted)."""

    ABSENT = "absent"
    RUNNING = "running"
    ENDED = "ended"
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class JobState:
    """State of a job, from its host's journal.

    ``stages`` are the exit statuses that the script wrote for the stages of its pipe; ``counters`` are bytes of the running processes
    (``<process>.read_bytes``, ``<process>.write_bytes``, from ``/proc/<pid>/io`` rchar and wchar, and ``<process>.disk_read_bytes``,
    ``<process>.disk_write_bytes``, which the kernel counts at the disk); ``tails`` are the last lines of the job's logs that have
    any, by name; times are seconds since 1970 on the host's clock.
    """

    status: JobStatus
    exit_status: int | None = None
    stages: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    tails: dict[str, str] = field(default_factory=dict)
    started_at: float | None = None
    ended_at: float | None = None


class Jobs(Protocol):
    """Run detached, journaled work of one rebuild on one host. The work outlives the connection, the worker and the dashboard.

    Each call carries the fencing token of the caller's lease; the host refuses a token that is lower than the highest it has seen.
    """

    run_directory: str

    def start(
        self, name: str, script: str, *arguments: str, secrets: dict[str, str] | None = None, lock: str = "work"
    ) -> JobState:
        """Start a job, or return its state if one of that name was started before: a second call never starts it again.

        Args:
            name: ``[a-z0-9.-]+``, unique in this rebuild (it contains the attempt's number).
            script: bash; runs in its own session in the job's directory. It may write ``stage.<name>`` (exit status of a stage),
                ``pid.<name>`` (a process to count) and ``log.<name>`` there; its own output goes to ``log.out``. ``"$1"`` and
                so on are the arguments.
            secrets: file name to content, written 0600 into the job's directory over standard input and removed when the
                job ends.
            lock: the ``flock`` that the job holds while the job or a child lives.

        Raises:
            Refused: a newer driver owns this run (code ``host.fenced``).
            RemoteFailure: another job holds the lock (``host.busy``), or the host could not start it.
            Unreachable: the host did not answer.
        """
        ...

    def follow(self, name: str, wait_seconds: float = 0.0, tail_lines: int = 20) -> JobState:
        """Return the state; wait on the host up to ``wait_seconds`` for the end. Raises ``Unreachable``."""
        ...

    def stop(self, name: str, patience_seconds: float = 2.0) -> JobState:
        """End the job and all its children: SIGINT, then SIGKILL after ``patience_seconds``. Raises as ``start``."""
        ...

    def read(self, name: str, log: str, offset: int = 0, limit: int = 65536) -> bytes:
        """Return bytes of one of the job's logs from ``offset``. Raises ``Unreachable``."""
        ...

    def act(self, script: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 20.0) -> CommandResult:
        """Run a short script on the host after checking the fence, with the run directory as its working directory.

        Raises as ``start`` and ``Shell.run``.
        """
        ...


class Database(Protocol):
    """One SQL connection to one server. The server closes an idle one, and it never reconnects silently."""

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Return rows as dictionaries by column name.

        Raises:
            Unreachable: no connection, or it was lost (``mysql.unreachable``).
            RemoteFailure: the server refused the statement (``mysql.error``; its number and text in ``found``).
        """
        ...

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement that returns no rows. Raises as ``query``."""
        ...

    def close(self) -> None: ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def sleep(self, seconds: float) -> None: ...
