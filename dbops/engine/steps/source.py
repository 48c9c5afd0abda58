"""Giving the source back: used when the copy is done, and again by the clean-up, whatever happened in between."""

from dbops.engine.plan import Plan, PlannedCommand
from dbops.engine.scripts import load
from dbops.engine.steps.base import Step
from dbops.engine.steps.run import Outcome, Run, done


def close_source(run: Run) -> None:
    """End what is left of the backup, resume replication if we paused it, take key and credentials away, dismiss the guard.

    Raises:
        RemoteFailure: replication could not be resumed, or the key not be removed; the guard on the source goes on trying.
        Unreachable: the source does not answer; its guard acts by itself.
    """
    if not run.memory.get("source_opened") or run.memory.get("source_closed"):
        return
    source, admin = run.source.party, run.accounts.admin
    run.act(
        run.source,
        "source.close",
        "end the backup if it runs, resume replication if it was paused, remove the run's key and credentials",
        load("release", "close_source"),
        run.run_id,
        run.source.authorized_keys_file,
        source.ssh_user,
        run.plan.programs["source.client"],
        source.socket,
        run.flavor.resume_applier(),
        stdin=run.flavor.credentials_file(admin.user, admin.password).encode(),
        timeout_seconds=30,
    )
    run.memory["source_closed"] = True
    run.journal.say(f"{source.name} is given back: the run's key and credentials are removed.", host=source.host)


class Release(Step):
    """The copy is whole: the source has done its part, and nothing of ours stays on it."""

    name = "release"
    title = "Give the source back"

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        return (PlannedCommand(plan.source.name, "# the key, the credentials and the guard of this run are removed"),)

    def advance(self, run: Run) -> Outcome:
        close_source(run)
        return done()
