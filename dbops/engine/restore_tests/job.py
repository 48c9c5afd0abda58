"""Run the job of one restore test: start or find it, judge it, and remove everything that it made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dbops.engine.errors import DbopsError, Refused, RemoteFailure, Unreachable
from dbops.engine.hosts.access import Endpoint, HostAccess, remove_run
from dbops.engine.hosts.jobs import CHECK_SECONDS, IN_BASH, DetachedJob, RunJournal
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.stall import StallLimits
from dbops.engine.phrases import phrase
from dbops.engine.ports import Clock, Jobs, JobStatus
from dbops.engine.restore_tests.plan import JOB, REMOVAL, RestoreTestPlan
from dbops.engine.restore_tests.result import (
    ExpectedContents,
    RestoreTestResult,
    judge_restore_test,
    read_steps,
)
from dbops.engine.states import Level

#: Maximum size of the row counts by table; in larger schemas rows are only counted in total.
COUNTS_BYTES = 1024**2
#: The access key is used within seconds of the job's start, and again hours later if the checksum is read again.
KEY_SECONDS = 48 * 3600


class JobAccess(Protocol):
    """Access to other hosts that is opened for a job and closed at its end. Both can be repeated."""

    @property
    def others(self) -> Sequence[Jobs]:
        """Return the jobs on these hosts."""
        ...

    def open(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Access from the host with the backup to the test host.

    ``words`` are the arguments of the forced command. ``machines`` are name and machine id of both hosts from the
    plan, the host with the file first.
    """

    way: HostAccess
    words: tuple[str, ...]
    machines: tuple[str, str]

    @property
    def others(self) -> tuple[Jobs, ...]:
        return (self.way.source.jobs,)

    def open(self) -> None:
        """Install a key that may read this one file and expires automatically. Idempotent.

        Raises:
            Refused: a host is not the machine of the plan (``restore_test.refused``); nothing was written.
            RemoteFailure, Unreachable: as ``HostAccess``.
        """
        for end, machine in zip((self.way.source, self.way.target), self.machines, strict=True):
            if why := why_other_machine(end, machine):
                raise Refused(
                    "restore_test.refused",
                    phrase("Opening access to the backup on {host}", host=end.name),
                    cause=why,
                    next_step=phrase("Check whether the address in the inventory still leads to the intended machine."),
                )
        self.way.let_in(self.way.make_key(), self.words, load("common", "pipes", "serve_file"), key_seconds=KEY_SECONDS)

    def close(self) -> None:
        """Remove the key and its files on both hosts, even if one host fails.

        Raises the first error, like ``HostAccess``.
        """
        close_all((self.way.forget_key, self.way.close, lambda: remove_run(self.way.source)))


def close_all(parts: Sequence[Callable[[], None]]) -> None:
    """Call all parts, and raise the first error afterwards."""
    first: DbopsError | None = None
    for part in parts:
        try:
            part()
        except DbopsError as error:
            first = first or error
    if first:
        raise first


def why_other_machine(end: Endpoint, machine: str) -> str:
    """Return why a host is not the machine of a plan; empty if it is. Raises ``Unreachable``."""
    result = end.jobs.act(IN_BASH, load("common") + '\nmust_be_machine "$1"', machine)
    if result.exit_status == 0:
        return ""
    return result.stdout.strip().removeprefix("REFUSED: ") or phrase("exit status {status}", status=result.exit_status)


@dataclass(frozen=True, slots=True)
class RemovalJob:
    """How the files of a job are removed.

    ``name`` is that of the removal job, ``script`` its program; ``error`` makes the error of files that are left, from operation, cause
    and state.
    """

    name: str
    script: str
    what: str
    error: Callable[[str, str, str], RemoteFailure]


def _not_removed(operation: str, cause: str, state: str) -> RemoteFailure:
    return RemoteFailure("restore_test.not_removed", operation, cause=cause, state=state)


OF_RESTORE_TEST = RemovalJob(REMOVAL, "remove_restore_test", "restore test", _not_removed)


@dataclass(slots=True)
class RestoreTestContext:
    """One running restore test, or another job that restores a backup on a scratch server.

    ``checkpoint`` is plain data that survives the driver; ``expected`` is called after all tables are read. ``way``
    gives access to other hosts, for example to a file there; at the end dbops waits ``silent_seconds`` for that host.
    """

    plan: RestoreTestPlan
    jobs: Jobs
    clock: Clock
    checkpoint: dict[str, Any]
    journal: RunJournal
    expected: Callable[[], ExpectedContents]
    stall: StallLimits = StallLimits(60.0, 1800.0)
    way: JobAccess | None = None
    silent_seconds: float = 120.0
    removal: RemovalJob = OF_RESTORE_TEST

    @property
    def job(self) -> DetachedJob:
        return DetachedJob(self.plan.kind, self.jobs, self.clock, self.checkpoint, self.stalled, self.not_ended)

    def warn(self, text: str) -> None:
        self.journal.say(text, level=Level.WARNING)

    def open_way(self) -> None:
        """Let a key in on other hosts, for example on the one that has the file. The note comes first: it is to be taken away again."""
        if self.way:
            self.checkpoint["opened"] = True
            self.journal.flush()
            self.way.open()

    def stalled(self, found: str) -> RemoteFailure:
        return RemoteFailure(
            "restore_test.stalled", phrase("Testing the restore of {path}", path=self.plan.path), cause=found
        )

    def not_ended(self, found: str) -> Unreachable:
        return Unreachable(
            "restore_test.not_ended", phrase("Stopping the restore test of {path}", path=self.plan.path), cause=found
        )


def advance(context: RestoreTestContext) -> RestoreTestResult | None:
    """Advance the restore test for about a second. Return its result, or ``None`` if it is not finished.

    Raises:
        Unreachable: the host does not answer; before the job was requested (``checkpoint["asked"]``) nothing runs there.
        Refused, RemoteFailure: the restore test failed; ``clean_up`` ends it.
        Cancelled: by the journal.
    """
    scripts = ("common", "pipes", "copied_options", "scratch", "scratch_server", "restored_copy", "run_restore_test")
    context.job.begin(context.journal, context.open_way)
    state = context.job.follow(lambda: context.jobs.start(JOB, load(*scripts), *context.plan.arguments()))
    if state.status is JobStatus.ABSENT:
        return None
    context.checkpoint["steps"] = read_steps(state.tails.get("steps", ""))
    if state.status is JobStatus.RUNNING:
        context.job.watch(state, context.stall, context.warn)
        context.journal.check()
        return None
    is_good = state.status is JobStatus.ENDED and state.exit_status == 0
    counts = context.jobs.read(JOB, "counts", limit=COUNTS_BYTES) if is_good else b""
    is_whole = len(counts) < COUNTS_BYTES  # missing tables are unknown if the list was cut
    expected = context.expected() if is_good and is_whole else ExpectedContents()
    return judge_restore_test(
        context.plan.source, context.plan.path, state, counts.decode("utf-8", "replace"), expected
    )


def clean_up(context: RestoreTestContext) -> bool:
    """Stop the job and remove its files through a removal job, which can take long. Idempotent.

    Return whether the removal has finished; ``False``: call again.

    Raises:
        Unreachable: like ``Jobs``, and while the job can't be stopped.
        RemoteFailure: files are left (``restore_test.not_removed``).
    """
    if not context.checkpoint.get("asked"):
        return _must_be_closed(context)
    if not context.checkpoint.get("stopped"):
        context.job.stop()
        context.checkpoint["stopped"] = True
    trouble = _trouble_in_closing(context)
    is_gone = remove(context.jobs, context.plan, context.removal.name, context.removal)
    if is_gone and trouble:
        raise trouble
    return is_gone


def _must_be_closed(context: RestoreTestContext) -> bool:
    if trouble := _trouble_in_closing(context):
        raise trouble
    return True


def _trouble_in_closing(context: RestoreTestContext) -> DbopsError | None:
    """Close the access to the file, if open. An unreachable host there does not withhold the result."""
    if context.way is None or not context.checkpoint.get("opened") or context.checkpoint.get("closed"):
        return None
    since = context.checkpoint.setdefault("closing_since", context.clock.now())
    trouble = _close(context.way)
    context.checkpoint["closed"] = trouble is None
    if trouble is None or (isinstance(trouble, Unreachable) and context.clock.now() - since < context.silent_seconds):
        return trouble
    return _stays_open(context.plan, trouble, context.removal)


def _stays_open(plan: RestoreTestPlan, trouble: DbopsError, removal: RemovalJob) -> RemoteFailure:
    where = (
        phrase("the file {path} on {holder}", path=plan.path, holder=plan.holder)
        if plan.holder
        else phrase("another host")
    )
    operation = phrase("Closing the access of the {what} to {where}", what=removal.what, where=where)
    state = phrase("A key that allows one command remains there until it expires.")
    return removal.error(operation, str(trouble), state)


def _close(way: JobAccess) -> DbopsError | None:
    """Close the access to the file. Return an error instead of raising it, so that the removal continues."""
    try:
        way.close()
    except DbopsError as error:
        return error
    return None


def remove_leftovers(
    jobs: Jobs, plan: RestoreTestPlan, name: str, way: JobAccess | None, removal: RemovalJob = OF_RESTORE_TEST
) -> bool:
    """Remove the leftovers of an older job on both hosts.

    Return whether it is done; raises like ``remove``.

    If the host with its file never answers again, the error of ``removal`` lets the next job run.
    """
    trouble = _close(way) if way else None
    is_gone = remove(jobs, plan, name, removal)
    if is_gone and trouble:
        raise _stays_open(plan, trouble, removal)
    return is_gone


def remove(jobs: Jobs, plan: RestoreTestPlan, name: str, removal: RemovalJob = OF_RESTORE_TEST) -> bool:
    """Remove the files of a restore test, or of the job of ``removal``.

    Return whether it is done; raises like ``clean_up``. ``name`` is of the removal job.
    """
    state = jobs.follow(name, wait_seconds=CHECK_SECONDS)
    if state.status is JobStatus.ABSENT:
        jobs.start(
            name,
            load("common", "scratch", removal.script),
            plan.place,
            plan.restore_test,
            lock="removal",
        )
        return False
    if state.status is JobStatus.RUNNING:
        return False
    if state.status is JobStatus.ENDED and state.exit_status == 0:
        return True
    said = state.tails.get("out", "").strip().removeprefix("FAILED: not_removed ")[-400:]
    raise removal.error(
        f"Removing the files of the {removal.what}{f' of {plan.path}' if plan.path else ''}",
        said or f"the removal exited with status {state.exit_status}",
        f"{plan.scratch} remains on the host.",
    )
