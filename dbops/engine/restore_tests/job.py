"""Run the job of one restore test: start or find it, judge it, and remove everything that it made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dbops.engine.errors import DbopsError, Refused, RemoteFailure, Unreachable
from dbops.engine.hosts import stall
from dbops.engine.hosts.access import Endpoint, HostAccess, remove_run
from dbops.engine.hosts.jobs import IN_BASH, Patience, RunJournal
from dbops.engine.hosts.scripts import load
from dbops.engine.ports import Clock, Jobs, JobState, JobStatus
from dbops.engine.restore_tests.plan import JOB, REMOVAL, RestoreTestPlan
from dbops.engine.restore_tests.result import (
    FAILURES,
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


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Access from the host with the backup to the test host.

    ``words`` are the arguments of the forced command. ``machines`` are name and machine id of both hosts from the
    plan, the host with the file first.
    """

    way: HostAccess
    words: tuple[str, ...]
    machines: tuple[str, str]

    def open(self) -> None:
        """Install a key that may read this one file and expires automatically. Idempotent.

        Raises:
            Refused: a host is not the machine of the plan (``restore_test.refused``); nothing was written.
            RemoteFailure, Unreachable: as ``HostAccess``.
        """
        for end, machine in zip((self.way.source, self.way.target), self.machines, strict=True):
            _must_be_machine(end, machine)
        self.way.let_in(self.way.make_key(), self.words, load("common", "pipes", "serve_file"), key_seconds=KEY_SECONDS)

    def close(self) -> None:
        """Remove the key and its files on both hosts, even if one host fails.

        Raises the first error, like ``HostAccess``.
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
        f"Opening access to the backup on {end.name}",
        found=result.stdout.strip().removeprefix("REFUSED: ") or f"exit status {result.exit_status}",
        left="Nothing was written.",
        next_step="Check in the inventory that this address still belongs to the intended machine.",
    )


@dataclass(slots=True)
class RestoreTestContext:
    """One running restore test.

    ``checkpoint`` is plain data that survives the driver; ``expected`` is called after all tables are read. ``way``
    gives access to a file on another host; at the end dbops waits ``silent_seconds`` for that host.
    """

    plan: RestoreTestPlan
    jobs: Jobs
    clock: Clock
    checkpoint: dict[str, Any]
    journal: RunJournal
    expected: Callable[[], ExpectedContents]
    patience: Patience = Patience()
    way: FileAccess | None = None
    silent_seconds: float = 120.0


def advance(site: RestoreTestContext) -> RestoreTestResult | None:
    """Advance the restore test for about a second. Return its result, or ``None`` if it is not finished.

    Raises:
        Unreachable: the host does not answer; before the job was requested (``checkpoint["asked"]``) nothing runs there.
        Refused, RemoteFailure: the restore test failed; ``clean_up`` ends it.
        Cancelled: by the journal.
    """
    if not site.checkpoint.get("asked"):
        site.jobs.follow(JOB)  # an unreachable host is detected here, before anything starts
        if site.way:
            site.checkpoint["opened"] = True
            site.journal.flush()
            site.way.open()
        site.checkpoint["asked"] = True
        site.journal.flush()
    state = site.jobs.follow(JOB, wait_seconds=0.8, tail_lines=40)
    if state.status is JobStatus.ABSENT:
        site.jobs.start(
            JOB, load("common", "pipes", "restore_test_scratch", "run_restore_test"), *site.plan.arguments()
        )
        return None
    site.checkpoint["steps"] = read_steps(state.tails.get("steps", ""))
    if state.status is JobStatus.RUNNING:
        _watch(site, state)
        site.journal.check()
        return None
    is_good = state.status is JobStatus.ENDED and state.exit_status == 0
    counts = site.jobs.read(JOB, "counts", limit=COUNTS_BYTES) if is_good else b""
    is_whole = len(counts) < COUNTS_BYTES  # missing tables are unknown if the list was cut
    expected = site.expected() if is_good and is_whole else ExpectedContents()
    return judge_restore_test(site.plan.source, site.plan.path, state, counts.decode("utf-8", "replace"), expected)


def _watch(site: RestoreTestContext, state: JobState) -> None:
    verdict = stall.check_stall(
        site.checkpoint.get("watch"),
        stall.signs_of(state.counters, state.tails),
        site.clock.now(),
        stall.StallLimits(site.patience.notice_seconds, site.patience.limit_seconds),
    )
    site.checkpoint["watch"] = verdict.checkpoint
    if verdict.is_to_be_told:
        text = f"No progress for {verdict.silent_seconds:.0f} s: no data and no log output."
        site.journal.say(text, level=Level.WARNING)
    if verdict.is_stalled:
        raise RemoteFailure(
            "restore_test.stalled",
            f"Testing the restore of {site.plan.path}",
            found=f"no data and no log output for {verdict.silent_seconds:.0f} s",
            left="The job was stopped and its directory removed.",
            next_step="Check for a hung disk on the host. DBOPS_STALL_PREPARE_SECONDS sets the timeout.",
        )


def clean_up(site: RestoreTestContext) -> bool:
    """Stop the job and remove its files through a removal job, which can take long. Idempotent.

    Return whether the removal has finished; ``False``: call again.

    Raises:
        Unreachable: like ``Jobs``, and while the job can't be stopped.
        RemoteFailure: files are left (``restore_test.not_removed``).
    """
    if not site.checkpoint.get("asked"):
        return _must_be_closed(site)
    if not site.checkpoint.get("stopped"):
        if site.jobs.stop(JOB).status is JobStatus.RUNNING:
            raise Unreachable(
                "restore_test.not_ended",
                f"Stopping the restore test of {site.plan.path}",
                found="processes did not exit after SIGKILL",
                left=f"{site.plan.scratch} remains on the host.",
                next_step="Check the host's disks. dbops retries until the processes exit.",
            )
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
    """Close the access to the file, if open. An unreachable host there does not withhold the result."""
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
        f"Removing the access key of the restore test of {plan.path} on {plan.holder}",
        found=str(trouble),
        left="The key can still read that one backup until it expires.",
        next_step=FAILURES["not_removed"],
    )


def _close(way: FileAccess) -> DbopsError | None:
    """Close the access to the file. Return an error instead of raising it, so that the removal continues."""
    try:
        way.close()
    except DbopsError as error:
        return error
    return None


def remove_leftovers(jobs: Jobs, plan: RestoreTestPlan, name: str, way: FileAccess | None) -> bool:
    """Remove the leftovers of an older restore test on both hosts.

    Return whether it is done; raises like ``remove``.

    If the host with its file never answers again, ``restore_test.not_removed`` lets the next restore test run.
    """
    trouble = _close(way) if way else None
    is_gone = remove(jobs, plan, name)
    if is_gone and trouble:
        raise _stays_open(plan, trouble)
    return is_gone


def remove(jobs: Jobs, plan: RestoreTestPlan, name: str) -> bool:
    """Remove the files of a restore test.

    Return whether it is done; raises like ``clean_up``. ``name`` is of the removal job.
    """
    state = jobs.follow(name, wait_seconds=0.8)
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
        found=said or f"the removal exited with status {state.exit_status}",
        left=f"{plan.scratch} remains on the host.",
        next_step=FAILURES["not_removed"],
    )
