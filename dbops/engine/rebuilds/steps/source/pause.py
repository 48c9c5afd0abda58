"""Pause the source's replication if the plan says so, and release the source."""

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import flavor_for
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.copy.shared_read import ASK_SECONDS, give_back, is_follower, settle
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again, done
from dbops.engine.rebuilds.steps.source.access import keep_open
from dbops.engine.rebuilds.steps.source.release import open_temporary_tables, pause_source, resume_source
from dbops.engine.states import Level

#: How often the applier is stopped and checked, three seconds apart.
PAUSE_ATTEMPTS = 40


class Pause(Step):
    """Stop the source's applier if the plan says so, and wait until it holds no temporary table.

    A table that is open when the applier stops stays open: so it runs again for a moment, as the backup tools do.
    """

    name = "pause"
    title = phrase("Pause replication on the source if needed")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        flavor = flavor_for(plan.source.version, plan.flavor)
        if not plan.pause_source:
            return (PlannedCommand(plan.source.name, f"# not needed: {plan.pause_reason}"),)
        return (PlannedCommand(plan.source.name, flavor.pause_applier()),)

    def advance(self, run: Run) -> StepOutcome:
        if is_follower(run):
            return done()  # the leader pauses the source
        if not settle(run):
            return again(ASK_SECONDS)
        if not run.plan.pause_source:
            return done()
        keep_open(run, at_once=True)
        attempt = run.checkpoint["pause.attempt"] = run.checkpoint.get("pause.attempt", 0) + 1
        pause_source(run, f"pause.{attempt}")
        left = open_temporary_tables(run)
        if not left:
            text = phrase(
                "Replication on {source} is paused: {reason}",
                source=run.source.party.name,
                reason=run.plan.pause_reason,
            )
            run.journal.say(text, level=Level.WARNING, host=run.source.party.host)
            return done()
        resume_source(run, f"pause.{attempt}.resume")
        if attempt >= PAUSE_ATTEMPTS:
            raise RemoteFailure(
                "source.temp_tables",
                phrase("Pausing replication on {source}", source=run.source.party.name),
                cause=phrase(
                    "its applier held {count} temporary tables in each of {attempts} attempts; a copy would lack them",
                    count=left,
                    attempts=attempt,
                ),
            )
        return again(3.0)


class Release(Step):
    """Release the source: the copy is whole, and everything that dbops placed on the source is removed."""

    name = "release"
    title = phrase("Release the source")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        return (PlannedCommand(plan.source.name, "# remove key, credentials and guard of this run"),)

    def advance(self, run: Run) -> StepOutcome:
        return done() if give_back(run) else again(ASK_SECONDS)
