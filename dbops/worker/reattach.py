"""Read the hosts' journals for jobs that the database does not know."""

from dbops.engine.errors import DbopsError, Unreachable
from dbops.engine.ports import Jobs, JobStatus
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.source.release import GUARD
from dbops.engine.states import Level

#: The checkpoint's key while the journals were not read after a change of drivers.
UNREAD = "journals_unread"


def learn_from_hosts(run: Run) -> None:
    """Correct the checkpoint of a rebuild whose last writes the database lost, for example because an older copy was put back.

    Without this, such a rebuild would end with "nothing was changed" although its target is stopped and moved.

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
    if not checkpoint.get("source_opened") and run.plan.archive is None and _may_be_open(run.source.jobs):
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
