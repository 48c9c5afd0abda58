"""What a driver tells the hosts about itself, and reads there about the drivers before it."""

from dbops.engine.errors import DbopsError, Unreachable
from dbops.engine.ports import Jobs, JobStatus
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.source.release import GUARD
from dbops.engine.states import Level

#: The checkpoint's key while the journals were not read after a change of drivers.
UNREAD = "journals_unread"
#: How often a driver shows the target that its run is alive; ``launcher.sh`` tolerates two minutes of silence.
SHOW_SECONDS = 30.0
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
    if not checkpoint.get("touched") and _has_job(run.target.jobs, SwapDatadir.name):
        checkpoint["touched"] = True
        run.journal.say(
            "The target's journal has a stop and move that the database does not know.",
            level=Level.WARNING,
            host=run.target.party.host,
        )
    if opens_source and not checkpoint.get("source_opened") and _may_be_open(run.source.jobs):
        checkpoint |= {"source_opened": True, "source_closed": False, "guard_started": True}
    checkpoint.pop(UNREAD, None)


def _has_job(jobs: Jobs, name: str) -> bool:
    """Return whether the host has a job of that name. A journal that cannot be read is no evidence of absence."""
    try:
        return jobs.follow(name, 0.0, 0).status is not JobStatus.ABSENT
    except Unreachable:
        raise
    except DbopsError:
        return True


def _may_be_open(jobs: Jobs) -> bool:
    """Return whether a guard was started, or its host does not answer: the clean-up then tries to release the source."""
    try:
        return _has_job(jobs, GUARD)
    except Unreachable:
        return True


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
