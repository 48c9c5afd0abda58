"""The last step: it always runs, continues after errors, and restores the source's state."""

from collections.abc import Callable

from dbops.engine.errors import DbopsError
from dbops.engine.hosts.jobs import job_must_succeed
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.engine.ports import JobStatus
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.copy.clone import close_donor
from dbops.engine.rebuilds.steps.copy.shared_read import give_back
from dbops.engine.rebuilds.steps.preflight.data_location import inspect_host
from dbops.engine.rebuilds.steps.preflight.source_replication import compare_replication
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again, done
from dbops.engine.rebuilds.steps.start.quiet_settings import say_still_quiet
from dbops.engine.rebuilds.steps.start.relaxed_durability import restore_durability_at_end
from dbops.engine.states import Level


class CleanUp(Step):
    """Release the source, remove the run's key from the target, and the old data if the new data was verified."""

    name = "clean-up"
    title = phrase("Clean up on both hosts")

    def __init__(self, closing: Callable[[], tuple[str, ...]] | None = None) -> None:
        """Set ``closing``, which returns the removals from the source for the plan page. Default: the run's key."""
        self._closing = closing

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        commands = [
            PlannedCommand(plan.source.name, "# remove key, credentials and guard of this run"),
            PlannedCommand(plan.target.name, "rm -f key key.pub known_hosts"),
        ]
        if self._closing:
            commands = [PlannedCommand(plan.source.name, sql) for sql in self._closing()]
        if plan.aside_path and not plan.keep_old_data:
            commands.append(
                PlannedCommand(
                    plan.target.name, f"find {plan.aside_path} -xdev -depth -delete   # only after verification"
                )
            )
        return tuple(commands)

    def advance(self, run: Run) -> StepOutcome:
        errors = []
        settled = True
        for part in (
            give_back,
            close_donor,
            forget_key,
            restore_durability_at_end,
            inspect_unless_verified,
            say_still_quiet,
            _remove_mark,
            compare_replication,
        ):
            try:
                settled = part(run) is not False and settled
            except DbopsError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        if not settled:
            return again(1.0)
        if run.checkpoint.get("verified") and not run.plan.keep_old_data and run.checkpoint.get("aside_path"):
            return _remove_old_data(run)
        return done()


def inspect_unless_verified(run: Run) -> None:
    """Find the location of all data on the target, for the rebuild's result. Raises as ``inspect_host``."""
    if run.checkpoint.get("touched") and not run.checkpoint.get("verified"):
        inspect_host(run)
        run.checkpoint["end_checked"] = True


def forget_key(run: Run) -> None:
    """Remove the run's key from the target. Raises as ``Run.act``."""
    if run.checkpoint.get("source_opened") and not run.checkpoint.get("key_forgotten"):
        run.act(run.target, "clean-up.key", "rm -f key key.pub known_hosts", "rm -f key key.pub known_hosts")
        run.checkpoint["key_forgotten"] = True


def _remove_mark(run: Run) -> None:
    """Remove this run's mark. A verified copy is an ordinary data directory: a rollback is no longer possible."""
    if run.checkpoint.get("verified") and not run.checkpoint.get("mark_removed"):
        mark = f"{run.plan.target.datadir}/.dbops-{run.copy_run}"
        script = load("common") + '\nbecome "$2"\nas_owner rm -f -- "$1" "$1.quieted" "$1.inside" "$1.unpacked"'
        shown = f"rm -f {mark} {mark}.quieted {mark}.inside {mark}.unpacked"
        run.act(run.target, "clean-up.mark", shown, script, mark, run.plan.target.os_user)
        run.checkpoint["mark_removed"] = True


def _remove_old_data(run: Run) -> StepOutcome:
    outcome = remove_moved(
        run, "remove-old", run.checkpoint["aside_path"], run.checkpoint["aside_identity"], phrase("old data")
    )
    if outcome.result.get("removed"):
        run.checkpoint["aside_path"] = ""
    return outcome


def remove_moved(run: Run, job: str, path: str, identity: str, what: str) -> StepOutcome:
    """Remove a directory that a run moved aside. A failure to remove it is logged and does not fail the run.

    Args:
        job: name of the job.
        path: of the directory on the target.
        identity: its ``device:inode``; another directory of that name stays untouched.
        what: its name in the history.
    """
    target, text = run.plan.target, f"find {path} -xdev -depth -delete"
    run.start_job(run.target, job, text, load("common", "remove_old"), path, identity, target.os_user, lock="remove")
    state = run.target.jobs.follow(job, wait_seconds=0.8)
    if state.status is JobStatus.RUNNING:
        run.journal.progress(note=phrase("removing the {what}", what=what))
        return again()
    run.journal.finished(job, state.exit_status, state.tails.get("out", ""))
    try:
        job_must_succeed(state, phrase("Removing the {what}", what=what))
    except DbopsError as error:
        run.journal.say(
            phrase(
                "The {what} of {target} stays at {path}: {error}", what=what, target=target.name, path=path, error=error
            ),
            level=Level.WARNING,
            host=target.host,
        )
        return done()
    run.journal.say(phrase("The {what} of {target} is removed.", what=what, target=target.name), host=target.host)
    return done(removed=True)
