"""What a driver tells the hosts about itself, and reads there about the drivers before it."""

from collections.abc import Sequence

from dbops.engine.errors import DbopsError, RemoteFailure, Unreachable
from dbops.engine.phrases import phrase
from dbops.engine.ports import Jobs, JobStatus
from dbops.engine.rebuilds.steps.base import JobStep, Step
from dbops.engine.rebuilds.steps.copy.clone import OpenDonor
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.preflight.live_check import OpenAccess
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.source.release import GUARD
from dbops.engine.states import Level

#: The checkpoint's key while the journals were not read after a change of drivers.
UNREAD = "journals_unread"
#: How often a driver shows the target that its run is alive; ``launcher.sh`` tolerates two minutes of silence.
SHOW_SECONDS = 30.0
#: The checkpoint's key after a journal had more than the row: jobs of later steps may run.
AHEAD = "journals_ahead"
SOURCE_OPENED = {"source_opened": True, "source_closed": False, "guard_started": True}
TAKEN_OVER = ("host.fenced", "host.other_dashboard")


def learn_from_hosts(run: Run, *, opens_source: bool) -> None:
    """Correct the checkpoint of a rebuild whose last writes the database lost, for example because an older copy was put back.

    Without this, such a rebuild would end with "nothing was changed" although its target is stopped and moved.

    Args:
        run: the rebuild.
        opens_source: whether its steps start a guard on the source; a rollback has none there.

    Raises:
        Unreachable: the target does not answer, so its state is unknown.
    """
    checkpoint = run.checkpoint
    _learn_from_target(run, if_unread=True)
    if opens_source and not checkpoint.get("source_opened") and _may_be_open(run.source.jobs, if_unread=True):
        checkpoint |= SOURCE_OPENED
    checkpoint.pop(UNREAD, None)


def learn_before_the_end(run: Run, steps: Sequence[Step]) -> None:
    """Correct the checkpoint of a rebuild that ends before it changed anything, as far as its row knows.

    In a copy of the database from before its start, the row had no driver yet, so no driver re-attaches. A journal that
    cannot be read changes nothing here: a rebuild may end early because of that very host.

    Args:
        run: the rebuild.
        steps: all of its method.

    Raises:
        Unreachable: the target does not answer, so its state is unknown.
    """
    checkpoint = run.checkpoint
    if checkpoint.get("touched"):
        return
    _learn_from_target(run, if_unread=False)
    touched = bool(checkpoint.get("touched"))
    if touched and any(isinstance(step, OpenDonor) for step in steps):
        checkpoint.setdefault("donor_opened", True)
    opens = any(isinstance(step, OpenAccess) for step in steps) and not checkpoint.get("source_opened")
    if opens and _may_be_open(run.source.jobs, if_unread=touched):
        checkpoint |= SOURCE_OPENED


def must_not_repeat(run: Run, step: Step) -> None:
    """Raise ``RemoteFailure`` (``host.journal_ahead``) for a step before the change that only the target's journal knows.

    Its work was done on machines as they were then, and what it learned for later steps is lost.
    """
    if run.checkpoint.get(AHEAD) and not step.is_destructive:
        raise RemoteFailure(
            "host.journal_ahead",
            phrase("Continuing at the step {step}", step=repr(step.name)),
            cause=phrase(
                "the journal on {host} has the job {job}, and the database does not",
                host=run.target.party.host,
                job=SwapDatadir.name,
            ),
        )


def steps_to_end(run: Run, steps: Sequence[Step], current: Step) -> Sequence[Step]:
    """Return the steps whose work an ending has to end: the current one, and later jobs that the row does not know."""
    if not run.checkpoint.get(AHEAD):
        return [current]
    later = steps[steps.index(current) + 1 :]
    return [current, *(step for step in later if isinstance(step, JobStep))]


def _learn_from_target(run: Run, *, if_unread: bool) -> None:
    if run.checkpoint.get("touched"):
        return
    has_swap = _has_job(run.target.jobs, SwapDatadir.name)
    run.checkpoint |= {"touched": True} if has_swap or (has_swap is None and if_unread) else {}
    if has_swap:
        run.checkpoint[AHEAD] = True
        run.journal.say(
            phrase("The target's journal has a stop and move that the database does not know."),
            level=Level.WARNING,
            host=run.target.party.host,
        )


def _has_job(jobs: Jobs, name: str) -> bool | None:
    """Return whether the host has a job of that name, ``None`` if its journal cannot be read. Raises ``Unreachable``."""
    try:
        return jobs.follow(name, 0.0, 0).status is not JobStatus.ABSENT
    except Unreachable:
        raise
    except DbopsError:
        return None


def _may_be_open(jobs: Jobs, *, if_unread: bool) -> bool:
    """Return whether a guard was started, so that the clean-up must release the source; ``if_unread`` if it is unknown."""
    try:
        found = _has_job(jobs, GUARD)
    except Unreachable:
        found = None
    return if_unread if found is None else found


def show_to_target(run: Run) -> None:
    """Show the target at intervals that this run is alive: steps that only speak SQL send its host nothing for hours.

    Otherwise another dashboard could take the instance for idle.

    Raises:
        Refused: another driver or dashboard has the instance. Every other trouble is left to the step.
    """
    now, checkpoint = run.clock.now(), run.checkpoint
    if not checkpoint.get("touched") or now < checkpoint.get("target.shown_at", 0.0) + SHOW_SECONDS:
        return
    checkpoint["target.shown_at"] = now
    try:
        run.target.jobs.act("true")
    except DbopsError as error:
        if error.code in TAKEN_OVER:
            raise
