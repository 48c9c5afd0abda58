"""The work of one proof: a job that is started once and found again, judged, and followed by a removal that is seen to end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dbops.engine.errors import DbopsError, Refused, RemoteFailure, Unreachable
from dbops.engine.hosts.access import Endpoint, HostAccess, remove_run
from dbops.engine.hosts.jobs import IN_BASH, LOOK_SECONDS, DetachedJob, RunJournal
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.stall import StallLimits
from dbops.engine.ports import Clock, Jobs, JobStatus
from dbops.engine.restore_tests.plan import JOB, REMOVAL, RestoreTestPlan
from dbops.engine.restore_tests.result import (
    ExpectedContents,
    RestoreTestResult,
    judge_restore_test,
    read_steps,
)
from dbops.engine.states import Level

#: What is read of the rows by table; a schema with more tables than fit is counted as a whole all the same.
COUNTS_BYTES = 1024**2
#: The file is asked for within seconds of the job's start, and a second time where its checksum is asked for once more: hours later.
KEY_SECONDS = 48 * 3600


@dataclass(frozen=True, slots=True)
class FileAccess:
    """From the host that has the backup to the one that proves it. ``words`` are what the forced command is told of the file.

    ``machines`` are name and machine id of both, as they were read when the proof was planned: that which has the file first.
    """

    way: HostAccess
    words: tuple[str, ...]
    machines: tuple[str, str]

    def open(self) -> None:
        """Let a key of this proof in, to read this one file; it expires by itself. Any number of times.

        Raises:
            Refused: a host is another machine than the plan's (``restore_test.refused``); nothing was written.
            RemoteFailure, Unreachable: as ``HostAccess``.
        """
        for end, machine in zip((self.way.source, self.way.target), self.machines, strict=True):
            _must_be_machine(end, machine)
        self.way.let_in(self.way.make_key(), self.words, load("common", "pipes", "serve_file"), key_seconds=KEY_SECONDS)

    def close(self) -> None:
        """Take the key away on both hosts, and what was written down where the file lies. One that fails keeps none of the others.

        Raises the first error, as ``HostAccess``.
        """
        first: DbopsError | None = None
        for part in (self.way.forget_key, self.way.close, lambda: remove_run(self.way.source)):
            try:
                part()
            except DbopsError as error:
                first = first or error
        if first:
            raise first


def _must_be_machine(end: Endpoint, machine: str) -> None:
    result = end.jobs.act(IN_BASH, load("common") + '\nmust_be_machine "$1"', machine)
    if result.exit_status == 0:
        return
    raise Refused(
        "restore_test.refused",
        f"Opening the way to the backup on {end.name}",
        cause=result.stdout.strip().removeprefix("REFUSED: ") or f"exit status {result.exit_status}",
        next_step="Check whether the address in the inventory still leads to the intended machine.",
    )


@dataclass(slots=True)
class RestoreTestContext:
    """One proof at work. ``checkpoint`` is plain data that survives the driver; ``expected`` is asked for once all tables are read.

    ``way`` leads to a file that lies elsewhere; at the end a host that is silent there is asked for ``silent_seconds``.
    """

    plan: RestoreTestPlan
    jobs: Jobs
    clock: Clock
    checkpoint: dict[str, Any]
    journal: RunJournal
    expected: Callable[[], ExpectedContents]
    stall: StallLimits = StallLimits(60.0, 1800.0)
    way: FileAccess | None = None
    silent_seconds: float = 120.0

    @property
    def job(self) -> DetachedJob:
        return DetachedJob(JOB, self.jobs, self.clock, self.checkpoint, self._stalled, self._not_ended)

    def warn(self, text: str) -> None:
        self.journal.say(text, level=Level.WARNING)

    def open_way(self) -> None:
        """Let a key in on the host that has the file, if the file is elsewhere. The note comes first: it is to be taken away again."""
        if self.way:
            self.checkpoint["opened"] = True
            self.journal.flush()
            self.way.open()

    def _stalled(self, found: str) -> RemoteFailure:
        return RemoteFailure("restore_test.stalled", f"Testing the restore of {self.plan.path}", cause=found)

    def _not_ended(self, found: str) -> Unreachable:
        return Unreachable("restore_test.not_ended", f"Stopping the restore test of {self.plan.path}", cause=found)


def advance(site: RestoreTestContext) -> RestoreTestResult | None:
    """Do or follow what is due for about a second. Return what was proven once it is, ``None`` to be asked again.

    Raises:
        Unreachable: nothing is known of the host; before the job was asked for (``memory["asked"]``) nothing runs there either.
        Refused, RemoteFailure: the proof has failed; ``clean_up`` ends it.
        Cancelled: by the journal.
    """
    scripts = ("common", "pipes", "restore_test_scratch", "run_restore_test")
    site.job.begin(site.journal, site.open_way)
    state = site.job.follow(lambda: site.jobs.start(JOB, load(*scripts), *site.plan.arguments()))
    if state.status is JobStatus.ABSENT:
        return None
    site.checkpoint["steps"] = read_steps(state.tails.get("steps", ""))
    if state.status is JobStatus.RUNNING:
        site.job.watch(state, site.stall, site.warn)
        site.journal.check()
        return None
    is_good = state.status is JobStatus.ENDED and state.exit_status == 0
    counts = site.jobs.read(JOB, "counts", limit=COUNTS_BYTES) if is_good else b""
    is_whole = len(counts) < COUNTS_BYTES  # of a list that was cut nothing can be said to be missing
    expected = site.expected() if is_good and is_whole else ExpectedContents()
    return judge_restore_test(site.plan.source, site.plan.path, state, counts.decode("utf-8", "replace"), expected)


def clean_up(site: RestoreTestContext) -> bool:
    """End the job if it runs, and remove what it made, by a job of its own: a large directory takes its time.

    Return whether all is gone; ``False``: ask again. Any number of times.

    Raises:
        Unreachable: as ``Jobs``, also while the job cannot be ended.
        RemoteFailure: something stays (``restore_test.not_removed``).
    """
    if not site.checkpoint.get("asked"):
        return _must_be_closed(site)
    if not site.checkpoint.get("stopped"):
        site.job.stop()
        site.checkpoint["stopped"] = True
    trouble = _trouble_in_closing(site)
    is_gone = remove(site.jobs, site.plan, REMOVAL)
    if is_gone and trouble:
        raise trouble
    return is_gone


def _must_be_closed(site: RestoreTestContext) -> bool:
    if trouble := _trouble_in_closing(site):
        raise trouble
    return True


def _trouble_in_closing(site: RestoreTestContext) -> DbopsError | None:
    """Close the way to the file, if one was opened. A host that stays silent there does not withhold what was proven."""
    if site.way is None or not site.checkpoint.get("opened") or site.checkpoint.get("closed"):
        return None
    since = site.checkpoint.setdefault("closing_since", site.clock.now())
    trouble = _close(site.way)
    site.checkpoint["closed"] = trouble is None
    if trouble is None or (isinstance(trouble, Unreachable) and site.clock.now() - since < site.silent_seconds):
        return trouble
    return _stays_open(site.plan, trouble)


def _stays_open(plan: RestoreTestPlan, trouble: DbopsError) -> RemoteFailure:
    return RemoteFailure(
        "restore_test.not_removed",
        f"Removing the files of the restore test of {plan.path} on {plan.holder}",
        cause=str(trouble),
        state="A key that can read this one backup remains until it expires.",
    )


def _close(way: FileAccess) -> DbopsError | None:
    """Close the way to the file. Trouble there keeps nobody from removing what was made here: it is returned."""
    try:
        way.close()
    except DbopsError as error:
        return error
    return None


def remove_leftovers(jobs: Jobs, plan: RestoreTestPlan, name: str, way: FileAccess | None) -> bool:
    """Remove what an older proof left on both hosts. Return whether it is done; raises as ``remove``.

    The host that had its file may be silent for good: that is no reason not to prove another backup (``restore_test.not_removed``).
    """
    trouble = _close(way) if way else None
    is_gone = remove(jobs, plan, name)
    if is_gone and trouble:
        raise _stays_open(plan, trouble)
    return is_gone


def remove(jobs: Jobs, plan: RestoreTestPlan, name: str) -> bool:
    """Remove what the proof of a plan made. Return whether it is done; raises as ``clean_up``. ``name``: of this removal's job."""
    state = jobs.follow(name, wait_seconds=LOOK_SECONDS)
    if state.status is JobStatus.ABSENT:
        jobs.start(
            name,
            load("common", "restore_test_scratch", "remove_restore_test"),
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
    raise RemoteFailure(
        "restore_test.not_removed",
        f"Removing the files of the restore test of {plan.path}",
        cause=said or f"the removal ended with status {state.exit_status}",
        state=f"{plan.scratch} remains on the host.",
    )
