"""Apply the source's binary logs on the copy until it has caught up with the source."""

from contextlib import closing
from typing import Any

from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import ReplicationFacts
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.base import Coordinates
from dbops.engine.hosts import stall
from dbops.engine.hosts.local_login import Account
from dbops.engine.hosts.progress import add_sample, catch_up_progress
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.plan import Plan, PlannedCommand, PlannedInstance
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.replicate.replication import (
    MASKED,
    is_attached_to,
    must_run,
    probe_again,
    read_link,
    read_position,
    replicate_from,
    replication_source,
    shown_change,
    target_database,
)
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, done
from dbops.engine.rebuilds.steps.start.relaxed_durability import relax, relax_commands, watch
from dbops.engine.states import Level

#: The checkpoint's mark of a copy that dbops attached to its leader.
ATTACHED = "attached"


def leader_of(plan: Plan) -> PlannedInstance:
    """Return the first server that the copy follows: the copied one, or the primary (``Plan.follows_primary``)."""
    return plan.primary if plan.follows_primary else plan.source


def leader_database(run: Run) -> Database:
    """Connect to the first server that the copy follows. Raises as ``Database.query``."""
    return run.primary.connect(10.0) if run.plan.follows_primary else run.source.connect(10.0)


def _is_ours(run: Run, link: ReplicationFacts | None) -> bool:
    """Return whether this run, or the one that it resumes, attached the copy to its leader.

    Host and port do not show it: the data of a MySQL replica has the source's own link, and a copy of a backup follows the same
    primary. With GTID a repeated attach is harmless, so the mark counts. Without GTID it would apply transactions twice where the mark
    was lost with the last writes of the database; there the leader is the copied server itself, which no copied link names.
    """
    if link is None or not is_attached_to(link, leader_of(run.plan)) or link.uses_gtid != run.plan.uses_gtid:
        return False
    if not run.plan.uses_gtid:
        return True
    return bool(run.checkpoint.get(ATTACHED)) and link.source_user == run.accounts.replication.user


class CatchUp(Step):
    """Replicate from the copied server until the copy has caught up with it; a finished backup follows the primary."""

    name = "catch-up"
    title = phrase("Catch up")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        flavor = flavor_for(plan.source.version, plan.flavor)
        account = Account(plan.replication_user, MASKED)
        source = replication_source(plan, leader_of(plan), account, start=None, catches_up=True)
        place = plan.target.name
        return (
            *relax_commands(plan),
            *(PlannedCommand(place, sql) for sql in flavor.set_position(Coordinates(gtid="POSITION OF THE COPY"), "")),
            PlannedCommand(place, shown_change(flavor, source)),
            *(PlannedCommand(place, sql) for sql in flavor.start_replication()),
        )

    def advance(self, run: Run) -> StepOutcome:
        watch(run)
        with target_database(run) as database:
            relax(run, database)
            link = read_link(database, run.flavor)
            leader = leader_of(run.plan)
            if not _is_ours(run, link):
                self._attach(run, database)
                return probe_again(run, self.name)
            wait = must_run(run, database, link, "catch-up", f"Replicating from {leader.name}")
            return wait or self._progress(run, database, link)

    def _attach(self, run: Run, database: Database) -> None:
        if not run.plan.uses_gtid and run.checkpoint.get(ATTACHED):
            raise RemoteFailure(
                "replication.changed",
                phrase("Catching up with {leader}", leader=leader_of(run.plan).name),
                cause=phrase(
                    "another server or account was set on {target} since dbops attached it", target=run.plan.target.name
                ),
            )
        flavor, start = run.flavor, Coordinates(**run.checkpoint["position"])
        channels = [flavor.parse_replication(row).channel for row in database.query(flavor.show_replication)]
        for number, statement in enumerate([*flavor.stop_replication(), *flavor.forget_replication(channels)]):
            run.execute(run.target, database, f"catch-up.forget.{number}", statement)
        executed, _ = read_position(database, flavor)
        for number, statement in enumerate(flavor.set_position(start, executed)):
            run.execute(run.target, database, f"catch-up.position.{number}", statement)
        leader = leader_of(run.plan)
        replicate_from(run, database, "catch-up", leader, start=None if run.plan.uses_gtid else start)
        run.checkpoint[ATTACHED] = True
        run.journal.say(
            phrase(
                "{target} replicates from {leader}, starting at {position}.",
                target=run.plan.target.name,
                leader=leader.name,
                position=start.gtid or start.log_file,
            )
        )

    def _progress(self, run: Run, database: Database, link: ReplicationFacts | None) -> StepOutcome:
        if run.plan.uses_gtid:
            left = self._transactions_left(run, database)
            run.journal.progress(**_rates(run, left))
            caught_up = left == 0
        else:
            caught_up = self._reached_by_position(run, link)
        self._watch(run, link)
        if caught_up and link is not None and link.is_running:
            run.journal.say(
                phrase(
                    "{target} has caught up with {leader}.",
                    target=run.plan.target.name,
                    leader=leader_of(run.plan).name,
                )
            )
            return done()
        return probe_again(run, self.name)

    def _watch(self, run: Run, link: ReplicationFacts | None) -> None:
        """Log a standstill, but never fail because of it: applying one large transaction takes hours."""
        signs = stall.signs_of({}, {}, link and (link.relay_source_log_file, link.exec_source_log_pos))
        check = stall.check_stall(
            run.checkpoint.get("catch-up.watch"),
            signs,
            run.clock.now(),
            stall.StallLimits(run.settings.stall_catch_up_seconds, 0),
        )
        run.checkpoint["catch-up.watch"] = check.checkpoint
        if check.needs_notice:
            run.journal.say(
                phrase(
                    "No replication progress for {seconds} s, perhaps because of a large transaction.",
                    seconds=f"{check.silent_seconds:.0f}",
                ),
                level=Level.WARNING,
                host=run.plan.target.host,
            )

    def _reached_by_position(self, run: Run, link: ReplicationFacts | None) -> bool:
        """Compare positions in the source's logs: lag alone misleads just after the attach (measured: 0 with 1 GB still to come)."""
        if "catch-up.goal" not in run.checkpoint:
            with closing(run.source.connect(10.0)) as source:
                row = source.query(run.flavor.show_binlog_position)[0]
            run.checkpoint["catch-up.goal"] = [str(row["File"]), int(row["Position"])]
        if link is None:
            return False
        run.journal.progress(
            note=phrase(
                "at {file}:{position} of the source's binary log",
                file=link.relay_source_log_file,
                position=link.exec_source_log_pos,
            )
        )
        log_file, log_pos = run.checkpoint["catch-up.goal"]
        return (link.relay_source_log_file, link.exec_source_log_pos) >= (str(log_file), int(log_pos))

    def _transactions_left(self, run: Run, database: Database) -> int:
        """Return how many transactions the source has logged (a moment ago) that the copy has not executed."""
        with closing(leader_database(run)) as source:
            executed, logged = read_position(source, run.flavor)
        have, _ = read_position(database, run.flavor)
        _count_arrived(run, logged or executed)
        left = run.flavor.gtid_count_missing(logged or executed, have)
        # Under a steady write load the copy is always a few transactions behind a value that was read a moment before.
        reached = run.checkpoint.setdefault("catch-up.goal", logged or executed)
        return 0 if not run.flavor.gtid_missing(reached, have) else left


def _count_arrived(run: Run, logged: str) -> None:
    """Count the transactions that the source has logged since the first check."""
    before = run.checkpoint.get("catch-up.logged", logged)
    run.checkpoint["catch-up.logged"] = logged
    arrived = run.checkpoint.get("catch-up.arrived", 0) + run.flavor.gtid_count_missing(logged, before)
    run.checkpoint["catch-up.arrived"] = arrived


def _rates(run: Run, left: int) -> dict[str, Any]:
    now, checkpoint = run.clock.now(), run.checkpoint
    samples = checkpoint["catch-up.samples"] = add_sample(checkpoint.get("catch-up.samples", []), at=now, count=-left)
    rows = checkpoint.get("catch-up.arrivals", [])
    arrived = checkpoint["catch-up.arrivals"] = add_sample(rows, at=now, count=checkpoint["catch-up.arrived"])
    return catch_up_progress(samples, arrived, left=left, of=leader_of(run.plan).name)
