"""The context of a step: the frozen plan, both sides, the accounts, and the journal that records everything."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import Flavor
from dbops.engine.hosts.host_keys import HostAuthorities
from dbops.engine.hosts.jobs import IN_BASH
from dbops.engine.hosts.local_login import Account
from dbops.engine.phrases import phrase
from dbops.engine.ports import Clock, CommandResult, Database, Jobs, JobState, Shell
from dbops.engine.rebuilds.metrics import Figures
from dbops.engine.rebuilds.plan import Plan, PlannedInstance
from dbops.engine.rebuilds.shared_read import ALONE, SharedReadMembers
from dbops.engine.states import Level
from dbops.engine.tuning.stream_rate import SLOWEST


@dataclass(frozen=True, slots=True)
class Accounts:
    """Accounts of one rebuild; the first two are the dashboard's, on the servers' sockets."""

    source: Account
    target: Account
    replication: Account
    backup: Account


@dataclass(frozen=True, slots=True)
class InstanceHandle:
    """One active instance: its part of the plan, and its connections. ``connect`` takes the read timeout in seconds."""

    party: PlannedInstance
    shell: Shell
    jobs: Jobs
    connect: Callable[[float], Database]
    host_key: str = ""
    authorities: HostAuthorities = HostAuthorities()
    stream_address: str = ""
    authorized_keys_file: str = ""
    sudo: bool = False


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is only read: the primary, or an intermediate replica. Steps have no connection to its host."""

    party: PlannedInstance
    connect: Callable[[float], Database]


class StepJournal(Protocol):
    """Record the work of a step. Writes are collected and stored at most once a second, with the heartbeat."""

    step: str

    def say(self, text: str, *, level: Level = Level.INFO, host: str = "") -> None:
        """Add one line to the rebuild's history."""
        ...

    def progress(self, **known: Any) -> None:
        """Replace the step's progress: ``bytes``, ``total_bytes``, ``rate_bytes_per_second`` and so on."""
        ...

    def measured(self, figures: Figures) -> None:
        """Record a current measurement for the charts. Only some are kept, so no decision may depend on them."""
        ...

    def command(self, key: str, place: str, text: str) -> None:
        """Record a command before it runs. ``key`` is unique in the rebuild: a second call changes nothing."""
        ...

    def finished(self, key: str, exit_status: int | None, output: str = "") -> None:
        """Complete the row of a command."""
        ...

    def check(self) -> None:
        """Check that this driver still owns the rebuild. Raises ``Cancelled``, or the driver's own error if it does not."""
        ...


@dataclass(slots=True)
class Run:
    """One active rebuild. ``checkpoint`` is plain data that survives the driver; ``replan`` probes live and plans again."""

    run_id: str
    plan: Plan
    flavor: Flavor
    source: InstanceHandle
    target: InstanceHandle
    primary: Server
    accounts: Accounts
    checkpoint: dict[str, Any]
    journal: StepJournal
    clock: Clock
    replan: Callable[[], Plan]
    settings: "RunThresholds"
    #: the intermediate replica of the plan
    upstream: Server | None = None
    shared_read_members: SharedReadMembers = ALONE
    #: the rate limit in bytes a second, read again on each call; ``None``: no limit
    stream_rate: Callable[[], int | None] = field(default=lambda: None)
    #: the lowest allowed rate limit in bytes a second (``engine.tuning.stream_rate.floor_of``)
    slowest_rate: Callable[[], int] = field(default=lambda: SLOWEST)

    @property
    def followed(self) -> PlannedInstance:
        """The server that the target must follow now: the primary, until it has returned to the plan's intermediate replica."""
        returned = self.checkpoint.get("rejoin", {}).get("phase") == "done"
        return self.plan.upstream if self.plan.upstream and returned else self.plan.primary

    @property
    def is_rejoining(self) -> bool:
        """Return whether the target is on its way from the primary to the intermediate replica, or back."""
        return self.checkpoint.get("rejoin", {}).get("phase", "done") not in ("done", "stays")

    @property
    def copy_run(self) -> str:
        """The run that made the new data directory, which contains its mark: this run, or the one that it resumes."""
        return str(self.checkpoint.get("copy_run", self.run_id))

    def act(
        self,
        side: InstanceHandle,
        key: str,
        text: str,
        script: str,
        *arguments: str,
        stdin: bytes = b"",
        timeout_seconds: float = 20.0,
    ) -> CommandResult:
        """Run a short script on a host after checking the fence, recorded as a command.

        Raises:
            RemoteFailure: it ended with a status other than 0 (``host.script``), or as ``Jobs.act``.
        """
        self.journal.check()
        self.journal.command(key, side.party.host, text)
        result = side.jobs.act(IN_BASH, script, *arguments, stdin=stdin, timeout_seconds=timeout_seconds)
        output = f"{result.stdout}{result.stderr}"
        self.journal.finished(key, result.exit_status, output)
        if result.exit_status != 0:
            raise RemoteFailure(
                "host.script",
                text,
                cause=phrase("status {status}: {output}", status=result.exit_status, output=output.strip()[-500:]),
            )
        return result

    def start_job(
        self,
        side: InstanceHandle,
        name: str,
        text: str,
        script: str,
        *arguments: str,
        secrets: dict[str, str] | None = None,
        lock: str = "work",
    ) -> JobState:
        """Start a detached job, or find it started; recorded as a command under the job's name."""
        self.journal.check()
        self.journal.command(name, side.party.host, text)
        return side.jobs.start(name, script, *arguments, secrets=secrets, lock=lock)

    def execute(
        self,
        side: InstanceHandle,
        database: Database,
        key: str,
        sql: str,
        parameters: Sequence[Any] = (),
        shown: str = "",
    ) -> None:
        """Run a statement that changes data or settings, recorded with its secrets masked."""
        self.journal.check()
        self.journal.command(key, side.party.name, shown or sql)
        database.execute(sql, parameters)
        self.journal.finished(key, 0)


@dataclass(frozen=True, slots=True)
class RunThresholds:
    """Thresholds of a run; times in seconds."""

    catch_up_lag_seconds: float = 1.0
    verify_steady_seconds: float = 2.0
    guard_paused_seconds: int = 45
    guard_idle_seconds: int = 900
    start_timeout_seconds: float = 300.0
    #: limits of silence: the first causes a log entry, that of the phase ends the job (0: never)
    stall_notice_seconds: float = 60.0
    stall_stop_seconds: float = 1800.0
    stall_stream_seconds: float = 300.0
    stall_unpack_seconds: float = 1800.0
    stall_prepare_seconds: float = 3600.0
    stall_catch_up_seconds: float = 300.0
    key_lifetime_seconds: int = 48 * 3600
    #: latency in milliseconds above which auto-throttle slows the stream; 0: never
    auto_throttle_latency_ms: float = 0.0
    #: shared read: how long to wait for targets that stop their server, when to drop one that receives nothing,
    #: and how far one may be behind another
    shared_read_wait_seconds: float = 900.0
    shared_read_stall_seconds: float = 120.0
    shared_read_buffer_bytes: int = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The progress of a step: done with its result, or to be called again after ``wait_seconds``."""

    done: bool
    result: dict[str, Any] = field(default_factory=dict)
    wait_seconds: float = 0.0


def done(**result: Any) -> StepOutcome:
    return StepOutcome(True, result)


def again(wait_seconds: float = 0.0) -> StepOutcome:
    return StepOutcome(False, wait_seconds=wait_seconds)
