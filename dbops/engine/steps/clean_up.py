"""The last step: it always runs, goes on past errors, and leaves the source as it was found."""

from dbops.engine.errors import DbopsError
from dbops.engine.plan import Plan, PlannedCommand
from dbops.engine.ports import JobStatus
from dbops.engine.scripts import load
from dbops.engine.states import Level
from dbops.engine.steps.base import Step, job_must_succeed
from dbops.engine.steps.run import Outcome, Run, again, done
from dbops.engine.steps.source import close_source
from dbops.engine.steps.whereabouts import look


class CleanUp(Step):
    """Give the source back, remove the run's key from the target, and the old data if the new was verified."""

    name = "clean-up"
    title = "Clean up on both hosts"

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        commands = [
            PlannedCommand(plan.source.name, "# key, credentials and guard of this run are removed"),
            PlannedCommand(plan.target.name, "rm -f key key.pub known_hosts"),
        ]
        if plan.aside_path and not plan.keep_old_data:
            commands.append(
                PlannedCommand(
                    plan.target.name, f"find {plan.aside_path} -xdev -depth -delete   # only after verification"
                )
            )
        return tuple(commands)

    def advance(self, run: Run) -> Outcome:
        errors = []
        for part in (close_source, _forget_key, _look):
            try:
                part(run)
            except DbopsError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        if run.memory.get("verified") and not run.plan.keep_old_data and run.memory.get("aside_path"):
            return _remove_old_data(run)
        return done()


def _look(run: Run) -> None:
    if run.memory.get("touched") and not run.memory.get("verified"):
        look(run)


def _forget_key(run: Run) -> None:
    if run.memory.get("source_opened"):
        run.act(run.target, "clean-up.key", "rm -f key key.pub known_hosts", "rm -f key key.pub known_hosts")


def _remove_old_data(run: Run) -> Outcome:
    path, target = run.memory["aside_path"], run.plan.target
    run.start_job(
        run.target,
        "remove-old",
        f"find {path} -xdev -depth -delete",
        load("common", "remove_old"),
        path,
        run.memory["aside_identity"],
        lock="remove",
    )
    state = run.target.jobs.follow("remove-old", wait_seconds=0.8)
    if state.status is JobStatus.RUNNING:
        run.journal.progress(note="removing the old data")
        return again()
    run.journal.finished("remove-old", state.exit_status, state.tails.get("out", ""))
    try:
        job_must_succeed(state, "Removing the old data")
        run.memory["aside_path"] = ""
        run.journal.say(f"The old data of {target.name} is removed.", host=target.host)
    except DbopsError as error:
        run.journal.say(
            f"The old data of {target.name} stays at {path}: {error}", level=Level.WARNING, host=target.host
        )
    return done()
