"""Repoint the target from the source to the primary."""

from contextlib import closing

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.local_login import Account
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.replicate.errant import must_have_nothing_errant
from dbops.engine.rebuilds.steps.replicate.replication import (
    MASKED,
    is_attached_to,
    must_run,
    point_to_primary,
    probe_again,
    read_link,
    replication_source,
    shown_change,
    target_database,
)
from dbops.engine.rebuilds.steps.replicate.repoint_by_position import repoint_by_position
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, done
from dbops.engine.rebuilds.steps.source.release import close_source
from dbops.engine.rebuilds.steps.start.relaxed_durability import watch


class Repoint(Step):
    """Repoint from the source to the primary: by GTID at once; by file and position with both stopped at one point for a moment."""

    name = "repoint"
    title = phrase("Repoint the replica to the primary")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        if plan.follows_primary:
            return (PlannedCommand(plan.primary.name, "# has it all that the copy has, and does it take writes?"),)
        flavor = flavor_for(plan.source.version, plan.flavor)
        primary = replication_source(plan, plan.primary, Account(plan.replication_user, MASKED), start=None)
        place = plan.target.name
        return (
            *(PlannedCommand(place, sql) for sql in flavor.stop_replication()),
            PlannedCommand(place, shown_change(flavor, primary)),
            *(PlannedCommand(place, sql) for sql in flavor.start_replication()),
        )

    def advance(self, run: Run) -> StepOutcome:
        watch(run)
        with target_database(run) as database:
            if not is_attached_to(read_link(database, run.flavor), run.plan.primary):
                if not run.plan.uses_gtid:
                    return repoint_by_position(run, database)
                self._is_primary(run)
                must_have_nothing_errant(run, database, state=_as_it_is(run))
                point_to_primary(run, database, start=None)
                return probe_again(run, "repoint")
            if not run.plan.uses_gtid:
                close_source(run)
            if run.plan.follows_primary and "repoint.compared" not in run.checkpoint:
                self._is_primary(run)
                must_have_nothing_errant(run, database, state=_as_it_is(run))
                run.checkpoint["repoint.compared"] = True
            link = read_link(database, run.flavor)
            operation = phrase("Replicating from the primary {primary}", primary=run.plan.primary.name)
            if wait := must_run(run, database, link, "repoint", operation):
                return wait
            return done() if link and link.is_running else probe_again(run, "repoint")

    def _is_primary(self, run: Run) -> None:
        """Check the primary's role: a failover since the plan must not silently attach a replica to another replica."""
        with closing(run.primary.connect(10.0)) as primary:
            row = primary.query("SELECT @@read_only AS read_only")[0]
        if int(row["read_only"]):
            raise RemoteFailure(
                "repoint.not_primary",
                phrase("Checking the primary {primary}", primary=run.plan.primary.name),
                cause=phrase("it is read-only, so it may no longer be the primary"),
                state=_as_it_is(run),
            )


def _as_it_is(run: Run) -> str:
    """Return the target's current state: a copy of a running source follows it until repointing; others follow the primary."""
    followed = run.plan.primary if run.plan.follows_primary else run.plan.source
    return phrase("{target} serves and replicates from {source}.", target=run.plan.target.name, source=followed.name)
