"""Stand-ins for the world, hand-written, with visible fields; contract tests in ``tests/drivers`` hold them to the drivers.

``FakeShell`` and ``FakeDatabase`` answer by pattern, ``FakeJobs`` plays jobs whose states a test scripts. Whatever was
asked is recorded in the order in which it was asked.
"""

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dbops.engine.errors import Bug, Refused, RemoteFailure, Unreachable
from dbops.engine.ports import Clock, CommandResult, Database, Jobs, JobState, JobStatus, Shell

OK = CommandResult(0, "", "")


class FakeClock(Clock):
    """Time that passes only by sleeping. ``on_sleep`` may change the world."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self.time = start
        self.slept: list[float] = []
        self.on_sleep: Callable[[float], None] = lambda seconds: None

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        self.on_sleep(seconds)


class Answers:
    """What to answer to which text. Each pattern has a series of answers; its last one stays."""

    def __init__(self) -> None:
        self._series: list[tuple[re.Pattern[str], list[Any]]] = []

    def add(self, pattern: str, *answers: Any) -> None:
        """Answer text in which ``pattern`` is found. What is added later wins. An exception is raised, a function called."""
        self._series.insert(0, (re.compile(pattern, re.IGNORECASE | re.DOTALL), list(answers)))

    def find(self, text: str, default: Any, *arguments: Any) -> Any:
        for pattern, series in self._series:
            if pattern.search(text):
                answer = series.pop(0) if len(series) > 1 else series[0]
                break
        else:
            answer = default
        if isinstance(answer, BaseException):
            raise answer
        return answer(*arguments) if callable(answer) else answer


@dataclass(frozen=True)
class Ran:
    """A command that was run."""

    script: str
    arguments: tuple[str, ...]
    stdin: bytes = b""


class FakeShell(Shell):
    """Answers by pattern over the script and its arguments, one a line.

    Args:
        runs_here: run what no pattern answers on this machine, with ``sh``; else it succeeds in silence.
    """

    def __init__(self, *, runs_here: bool = False) -> None:
        self.runs_here = runs_here
        self.answers = Answers()
        self.ran: list[Ran] = []
        self.down: Exception | None = None
        self.closed = 0

    def expect(self, pattern: str, *answers: Any) -> None:
        """Answer with ``CommandResult``, text (its standard output), an exception, or a function of ``Ran``."""
        self.answers.add(pattern, *answers)

    def run(self, script: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 10.0) -> CommandResult:
        if any("\0" in text for text in (script, *arguments)):
            raise Refused("ssh.nul_byte", "Building a command for a host")
        if self.down:
            raise self.down
        ran = Ran(script, arguments, stdin)
        self.ran.append(ran)
        default = (lambda command: _run_here(command, timeout_seconds)) if self.runs_here else OK
        answer = self.answers.find("\n".join((script, *arguments)), default, ran)
        return CommandResult(0, answer, "") if isinstance(answer, str) else answer

    def close(self) -> None:
        self.closed += 1


def _run_here(ran: Ran, timeout_seconds: float) -> CommandResult:
    # sshd gives its sessions default signals; the shell that runs these tests may ignore some
    command = ["env", "--default-signal", "sh", "-c", ran.script, "dbops", *ran.arguments]
    try:
        done = subprocess.run(command, input=ran.stdin, capture_output=True, timeout=timeout_seconds, check=False)
    except subprocess.TimeoutExpired:
        raise Unreachable("ssh.timeout", "Waiting for a command", cause=f"{timeout_seconds:g} s") from None
    status = None if done.returncode < 0 else done.returncode
    return CommandResult(status, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def running(**parts: Any) -> JobState:
    """Return the state of a running job."""
    return JobState(JobStatus.RUNNING, started_at=0.0, **parts)


def ended(exit_status: int = 0, **parts: Any) -> JobState:
    """Return the state of a job that ended."""
    return JobState(JobStatus.ENDED, exit_status=exit_status, started_at=0.0, ended_at=1.0, **parts)


def vanished(**parts: Any) -> JobState:
    """Return the state of a job that is gone without an exit status."""
    return JobState(JobStatus.VANISHED, started_at=0.0, **parts)


@dataclass
class StartedJob:
    """A job as it was started, and its state."""

    name: str
    script: str
    arguments: tuple[str, ...]
    secrets: dict[str, str]
    lock: str
    state: JobState
    coming: list[JobState]
    logs: dict[str, bytes] = field(default_factory=dict)
    #: names of the secret files that are still on the host
    secrets_left: set[str] = field(default_factory=set)

    def become(self, state: JobState) -> None:
        self.state = state
        if state.status is not JobStatus.RUNNING:
            self.secrets_left.clear()


class FakeHost:
    """What outlives a driver: the fence, the jobs, the locks. Several ``FakeJobs`` with different tokens may share one."""

    def __init__(self) -> None:
        self.fence = 0
        #: the run and the dashboard that worked last, and whether they count as alive
        self.owner, self.owner_is_alive = ("", ""), True
        self.jobs: dict[tuple[str, str], StartedJob] = {}
        self.order: list[StartedJob] = []
        self.acts: list[Ran] = []
        self.stopped: list[str] = []
        self.answers = Answers()
        self.plays: list[tuple[re.Pattern[str], list[JobState]]] = []
        #: raised by the next calls: one each, then the host answers again
        self.failures: list[Exception] = []
        #: raised by every call while it is set
        self.down: Exception | None = None


class FakeJobs(Jobs):
    """Jobs that go as a test says.

    ``play("stream.1", running(), running(), ended(1))`` gives the states that ``start`` and each ``follow`` then see in
    turn; the last stays. Names are matched whole, as regular expressions. A job without a script runs when it is
    started and has ended well when it is followed.
    """

    def __init__(
        self, host: FakeHost | None = None, *, token: int = 1, run_id: str = "run-1", dashboard: str = "dashboard-1"
    ) -> None:
        self.host = host or FakeHost()
        self.dashboard = dashboard
        self.token = token
        self.run_id = run_id
        self.run_directory = f"/var/lib/dbops/rebuilds/{run_id}"

    # --- what a test says and sees --------------------------------------------------------------------------------
    def play(self, name: str, *states: JobState) -> None:
        """Script the job, or all jobs whose name matches. What is said later wins."""
        self.host.plays.insert(0, (re.compile(name), list(states)))

    def expect(self, pattern: str, *answers: Any) -> None:
        """Answer ``act`` calls whose script or arguments match, as ``FakeShell.expect``."""
        self.host.answers.add(pattern, *answers)

    def job(self, name: str) -> StartedJob:
        return self.host.jobs[self.run_id, name]

    @property
    def started(self) -> list[str]:
        return [job.name for job in self.host.order]

    @property
    def acts(self) -> list[Ran]:
        return self.host.acts

    # --- the port -------------------------------------------------------------------------------------------------
    def start(
        self, name: str, script: str, *arguments: str, secrets: dict[str, str] | None = None, lock: str = "work"
    ) -> JobState:
        self._check_name(name)
        self._reach(fenced=True)
        known = self.host.jobs.get((self.run_id, name))
        if known:
            return known.state
        if any(job.lock == lock and job.state.status is JobStatus.RUNNING for job in self.host.order):
            raise RemoteFailure("host.busy", f"Starting {name}", cause=f"the lock {lock} is held by another job")
        states = self._states(name)
        secrets = dict(secrets or {})
        job = StartedJob(name, script, arguments, secrets, lock, states[0], states[1:], secrets_left=set(secrets))
        job.become(states[0])
        self.host.jobs[self.run_id, name] = job
        self.host.order.append(job)
        return job.state

    def follow(self, name: str, wait_seconds: float = 0.0, tail_lines: int = 20) -> JobState:
        self._check_name(name)
        self._reach(fenced=False)
        job = self.host.jobs.get((self.run_id, name))
        if job is None:
            return JobState(JobStatus.ABSENT)
        if job.coming:
            job.become(job.coming.pop(0))
        return self._with_tails(job, tail_lines)

    def stop(self, name: str, patience_seconds: float = 2.0) -> JobState:
        self._check_name(name)
        self._reach(fenced=True)
        job = self.host.jobs.get((self.run_id, name))
        if job is None:
            return JobState(JobStatus.ABSENT)
        self.host.stopped.append(name)
        if job.state.status is JobStatus.RUNNING:
            job.coming.clear()
            job.become(replace(job.state, status=JobStatus.ENDED, exit_status=130, ended_at=1.0))
        return job.state

    def read(self, name: str, log: str, offset: int = 0, limit: int = 65536) -> bytes:
        self._reach(fenced=False)
        job = self.host.jobs.get((self.run_id, name))
        return job.logs.get(log, b"")[offset : offset + limit] if job else b""

    def act(self, script: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 20.0) -> CommandResult:
        self._reach(fenced=True)
        ran = Ran(script, arguments, stdin)
        self.host.acts.append(ran)
        answer = self.host.answers.find("\n".join((script, *arguments)), OK, ran)
        return CommandResult(0, answer, "") if isinstance(answer, str) else answer

    def _states(self, name: str) -> list[JobState]:
        for pattern, states in self.host.plays:
            if pattern.fullmatch(name):
                return list(states)
        return [running(), ended()]

    def _with_tails(self, job: StartedJob, lines: int) -> JobState:
        logs = {log: b"".join(content.splitlines(keepends=True)[-lines:]).decode() for log, content in job.logs.items()}
        return replace(job.state, tails={**logs, **job.state.tails})

    def _reach(self, *, fenced: bool) -> None:
        if self.host.down:
            raise self.host.down
        if self.host.failures:
            raise self.host.failures.pop(0)
        run, dashboard = self.host.owner
        if fenced and dashboard and dashboard != self.dashboard and self._lives(run):
            raise Refused("host.other_dashboard", "Working on the host", cause=f"run {run} of dashboard {dashboard}")
        if fenced and self.token < self.host.fence:
            raise Refused("host.fenced", "Working on the host", cause=str(self.host.fence))
        if fenced:
            self.host.fence, self.host.owner = self.token, (self.run_id, self.dashboard)

    def _lives(self, run: str) -> bool:
        running = (job.state.status is JobStatus.RUNNING for (of, _), job in self.host.jobs.items() if of == run)
        return self.host.owner_is_alive or any(running)

    @staticmethod
    def _check_name(name: str) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
            raise Bug("host.bad_request", "Naming a job", cause=repr(name))


class FakeDatabase(Database):
    """Answers statements by pattern; ``executed`` holds all of them, with their parameters.

    A query that no pattern answers fails the test; a statement that returns nothing succeeds in silence.
    """

    def __init__(self) -> None:
        self.answers = Answers()
        self.executed: list[tuple[str, tuple[Any, ...]]] = []
        self.down: Exception | None = None
        self.closed = 0
        self._lost = False

    def expect(self, pattern: str, *answers: Any) -> None:
        """Answer with rows (a list of dictionaries), an exception, or a function of statement and parameters."""
        self.answers.add(pattern, *answers)

    def lose(self) -> None:
        """Lose the connection: each call raises until ``close``, as on a real server."""
        self._lost = True

    @property
    def statements(self) -> list[str]:
        return [sql for sql, _ in self.executed]

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        unknown = AssertionError(f"no answer is expected to: {sql}")
        return list(self._ask(sql, parameters, unknown))

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self._ask(sql, parameters, [])

    def close(self) -> None:
        self.closed += 1
        self._lost = False

    def _ask(self, sql: str, parameters: Sequence[Any], default: Any) -> Any:
        if self.down:
            raise self.down
        if self._lost:
            raise Unreachable("mysql.unreachable", "Talking to the server", cause="the connection was lost before")
        self.executed.append((sql, tuple(parameters)))
        return self.answers.find(sql, default, sql, tuple(parameters))


def server_error(number: int, text: str) -> RemoteFailure:
    """Return what a server's refusal of a statement raises."""
    return RemoteFailure("mysql.error", "Running a statement", cause=f"{number}: {text}")
