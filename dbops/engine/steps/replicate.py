"""From a started copy to a replica: roll forward from the source, repoint to the primary, verify."""

from contextlib import closing
from typing import Any

from dbops.engine.errors import RemoteFailure
from dbops.engine.facts import ReplicationFacts
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.flavors.base import Coordinates, ReplicationSource
from dbops.engine.plan import Party, Plan, PlannedCommand
from dbops.engine.ports import Database, JobStatus
from dbops.engine.progress import add_sample, rate_of
from dbops.engine.steps.base import Step
from dbops.engine.steps.run import Account, Outcome, Run, again, done
from dbops.engine.steps.source import close_source, pause_source, start_guard

MASKED = "********"
#: How long a replica may try to connect to where it was pointed: a wrong password is tried again for ever.
CONNECT_SECONDS = 60.0
#: How long a replica may take to be close behind the primary for the first time and to stay there.
VERIFY_SECONDS = 1800.0


def read_link(database: Database, flavor: Flavor) -> ReplicationFacts | None:
    """Return the state of the one replication connection, ``None`` where there is none."""
    rows = database.query(flavor.show_replication)
    return flavor.parse_replication(rows[0]) if rows else None


def read_position(database: Database, flavor: Flavor) -> tuple[str, str]:
    """Return what the server has executed, and what its binary log holds, as GTID positions."""
    names = ("gtid_current_pos", "gtid_binlog_pos") if flavor.name == "mariadb" else ("gtid_executed", "gtid_executed")
    row = database.query(f"SELECT @@GLOBAL.{names[0]} AS executed, @@GLOBAL.{names[1]} AS logged")[0]
    return str(row["executed"] or ""), str(row["logged"] or "")


def fail_on_error(link: ReplicationFacts | None, doing: str, run: Run) -> None:
    """Raise when replication will not mend itself: a thread has stopped with an error, or cannot connect for a minute."""
    error = (link.last_io_error or link.last_sql_error) if link else "no replication is configured"
    stopped = link is None or link.sql_running == "No" or link.io_running == "No"
    if not stopped and link and link.io_running != "Yes":
        since = run.memory.setdefault("connecting_since", run.clock.now())
        stopped = run.clock.now() - since > CONNECT_SECONDS
        error = error or "it does not get a connection, and does not say why"
    else:
        run.memory.pop("connecting_since", None)
    if stopped and error:
        raise RemoteFailure(
            "replication.error",
            doing,
            found=error,
            left=f"{run.plan.target.name} runs on the new data but does not replicate.",
            next_step="Mend the cause and start replication, or rebuild again.",
        )


def replication_source(party: Party, account: Account, *, gtid: bool, start: Coordinates | None) -> ReplicationSource:
    return ReplicationSource(
        host=party.address, port=party.port, user=account.user, password=account.password, gtid=gtid, start=start
    )


def shown_change(flavor: Flavor, source: ReplicationSource) -> str:
    """Return the statement as a person would type it, the password masked."""
    sql, parameters = flavor.replicate_from(source)
    words = [MASKED if value == source.password else value for value in parameters]
    return sql % tuple(repr(word) if isinstance(word, str) else word for word in words)


def replicate_from(run: Run, database: Database, key: str, party: Party, *, start: Coordinates | None) -> None:
    """Point the target to ``party`` and start. Raises as ``Run.execute``."""
    source = replication_source(party, run.accounts.replication, gtid=run.plan.uses_gtid, start=start)
    sql, parameters = run.flavor.replicate_from(source)
    run.execute(run.target, database, f"{key}.change", sql, parameters, shown=shown_change(run.flavor, source))
    for number, statement in enumerate(run.flavor.start_replication()):
        run.execute(run.target, database, f"{key}.start.{number}", statement)


def start_if_stopped(run: Run, database: Database, link: ReplicationFacts | None, key: str) -> bool:
    """Start what was pointed but not started: its driver died in between. Both threads stand, and no error says why."""
    if link is None or (link.io_running, link.sql_running) != ("No", "No"):
        return False
    for number, statement in enumerate(run.flavor.start_replication()):
        run.execute(run.target, database, f"{key}.start-again.{number}", statement)
    return True


def is_attached_to(link: ReplicationFacts | None, party: Party) -> bool:
    return link is not None and (link.source_host, link.source_port) == (party.address, party.port)


class CatchUp(Step):
    """Replicate from the backup source until the copy stands where the source stands."""

    name = "catch-up"
    title = "Roll forward from the source until caught up"

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        flavor = flavor_for(plan.source.version, plan.flavor)
        source = replication_source(
            plan.source, Account(plan.replication_user, MASKED), gtid=plan.uses_gtid, start=None
        )
        place = plan.target.name
        return (
            *(PlannedCommand(place, sql) for sql in flavor.set_position(Coordinates(gtid="POSITION OF THE COPY"), "")),
            PlannedCommand(place, shown_change(flavor, source)),
            *(PlannedCommand(place, sql) for sql in flavor.start_replication()),
        )

    def advance(self, run: Run) -> Outcome:
        with closing(run.target.connect(10.0)) as database:
            link = read_link(database, run.flavor)
            if not is_attached_to(link, run.plan.source):
                self._attach(run, database)
                return again(0.2)
            fail_on_error(link, f"Replicating from {run.plan.source.name}", run)
            if start_if_stopped(run, database, link, "catch-up"):
                return again(0.2)
            return self._progress(run, database, link)

    def _attach(self, run: Run, database: Database) -> None:
        flavor, start = run.flavor, Coordinates(**run.memory["position"])
        for number, statement in enumerate([*flavor.stop_replication(), *flavor.forget_replication()]):
            run.execute(run.target, database, f"catch-up.forget.{number}", statement)
        executed, _ = read_position(database, flavor)
        for number, statement in enumerate(flavor.set_position(start, executed)):
            run.execute(run.target, database, f"catch-up.position.{number}", statement)
        replicate_from(run, database, "catch-up", run.plan.source, start=None if run.plan.uses_gtid else start)
        run.journal.say(
            f"{run.plan.target.name} replicates from {run.plan.source.name} from {start.gtid or start.log_file} on."
        )

    def _progress(self, run: Run, database: Database, link: ReplicationFacts | None) -> Outcome:
        if run.plan.uses_gtid:
            left = self._transactions_left(run, database)
            run.journal.progress(**_catch_up_progress(run, left))
            caught_up = left == 0
        else:
            caught_up = self._reached_by_position(run, link)
        if caught_up and link is not None and link.is_running:
            run.journal.say(f"{run.plan.target.name} has caught up with {run.plan.source.name}.")
            return done()
        return again(0.4)

    def _reached_by_position(self, run: Run, link: ReplicationFacts | None) -> bool:
        """Lag alone lies just after the attach (measured: 0 while 1 GB was still to come): compare positions in the source's logs."""
        if "catch-up.goal" not in run.memory:
            with closing(run.source.connect(10.0)) as source:
                row = source.query(run.flavor.show_binlog_position)[0]
            run.memory["catch-up.goal"] = [str(row["File"]), int(row["Position"])]
        if link is None:
            return False
        run.journal.progress(
            note=f"at {link.relay_source_log_file}:{link.exec_source_log_pos} of the source's binary log"
        )
        log_file, log_pos = run.memory["catch-up.goal"]
        return (link.relay_source_log_file, link.exec_source_log_pos) >= (str(log_file), int(log_pos))

    def _transactions_left(self, run: Run, database: Database) -> int:
        """How many transactions the source has logged (a moment ago) that the copy has not executed."""
        with closing(run.source.connect(10.0)) as source:
            executed, logged = read_position(source, run.flavor)
        have, _ = read_position(database, run.flavor)
        left = run.flavor.gtid_count_missing(logged or executed, have)
        # At a steady write load the copy is always a few transactions behind what was read a moment before it.
        reached = run.memory.setdefault("catch-up.goal", logged or executed)
        return 0 if not run.flavor.gtid_missing(reached, have) else left


def _catch_up_progress(run: Run, left: int) -> dict[str, Any]:
    samples = run.memory["catch-up.samples"] = add_sample(
        run.memory.get("catch-up.samples", []), at=run.clock.now(), count=-left
    )
    rate, known = rate_of(samples), {"note": f"{left} transactions behind the source"}
    return {**known, "eta_seconds": left / rate} if rate and left else known


def point_to_primary(run: Run, database: Database, *, start: Coordinates | None) -> None:
    """Stop, change and start replication on the target."""
    for number, statement in enumerate(run.flavor.stop_replication()):
        run.execute(run.target, database, f"repoint.stop.{number}", statement)
    replicate_from(run, database, "repoint", run.plan.primary, start=start)
    run.journal.say(f"{run.plan.target.name} replicates from the primary {run.plan.primary.name}.")


def repoint_by_position(run: Run, database: Database) -> Outcome:
    """Without GTID: the source's applier stops for a moment, so that one point is known in both coordinate systems.

    Read on the source while it stands: where it is in the primary's logs, and where that is in its own. When the target
    stands at the latter exactly, the former is where it goes on from the primary. The guard on the source resumes it if
    we die in between.
    """
    attempt = run.memory.setdefault("repoint.attempt", 1)
    if "repoint.point" not in run.memory:
        if start_guard(run, f"guard-repoint-{attempt}").status is not JobStatus.RUNNING:
            return _another_attempt(run)
        pause_source(run, f"repoint.pause.{attempt}")
        with closing(run.source.connect(10.0)) as source:
            link = read_link(source, run.flavor)
            own = source.query(run.flavor.show_binlog_position)[0]
        if link is None:
            raise RemoteFailure(
                "replication.error",
                f"Reading where {run.plan.source.name} stands",
                found="it does not replicate any more",
            )
        run.memory["repoint.point"] = {
            "own": [own["File"], int(own["Position"])],
            "primary": [link.relay_source_log_file, link.exec_source_log_pos],
        }
    told = run.act(
        run.source, "repoint.heartbeat", "touch heartbeat", "touch heartbeat; [ ! -e paused ] || echo paused"
    )
    if "paused" not in told.stdout:  # we were away for too long, and the guard gave the source back
        return _another_attempt(run)
    here = read_link(database, run.flavor)
    point = run.memory["repoint.point"]
    if here is None or [here.relay_source_log_file, here.exec_source_log_pos] != point["own"]:
        fail_on_error(here, f"Waiting for {run.plan.target.name} to stand where {run.plan.source.name} stands", run)
        return again(0.2)
    log_file, log_pos = point["primary"]
    point_to_primary(run, database, start=Coordinates(log_file=log_file, log_pos=log_pos))
    close_source(run)
    return again(0.2)


def _another_attempt(run: Run) -> Outcome:
    """The point is known no more: arm a new guard and stop the source's applier once more."""
    run.memory.pop("repoint.point", None)
    run.memory["repoint.attempt"] += 1
    return again(0.2)


class Repoint(Step):
    """From the source to the primary. By GTID at once; by file and position with both standing at one point for a moment."""

    name = "repoint"
    title = "Repoint the replica to the primary"

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        flavor = flavor_for(plan.source.version, plan.flavor)
        primary = replication_source(
            plan.primary, Account(plan.replication_user, MASKED), gtid=plan.uses_gtid, start=None
        )
        place = plan.target.name
        return (
            *(PlannedCommand(place, sql) for sql in flavor.stop_replication()),
            PlannedCommand(place, shown_change(flavor, primary)),
            *(PlannedCommand(place, sql) for sql in flavor.start_replication()),
        )

    def advance(self, run: Run) -> Outcome:
        with closing(run.target.connect(10.0)) as database:
            if not is_attached_to(read_link(database, run.flavor), run.plan.primary):
                if not run.plan.uses_gtid:
                    return repoint_by_position(run, database)
                self._nothing_errant(run, database)
                point_to_primary(run, database, start=None)
                return again(0.2)
            if not run.plan.uses_gtid:
                close_source(run)
            link = read_link(database, run.flavor)
            fail_on_error(link, f"Replicating from the primary {run.plan.primary.name}", run)
            if start_if_stopped(run, database, link, "repoint"):
                return again(0.2)
            return done() if link and link.is_running else again(0.3)

    def _nothing_errant(self, run: Run, database: Database) -> None:
        """The copy may hold nothing that the primary does not have: it would break later, and nobody would know why.

        The copy is read first: what the primary has afterwards can only be more.
        """
        have, _ = read_position(database, run.flavor)
        with closing(run.primary.connect(10.0)) as primary:
            executed, logged = read_position(primary, run.flavor)
        errant = run.flavor.gtid_missing(have, logged or executed)
        if errant:
            raise RemoteFailure(
                "repoint.errant",
                f"Comparing {run.plan.target.name} with the primary",
                found=f"the primary does not have {errant}",
                left=f"{run.plan.target.name} serves and replicates from {run.plan.source.name}.",
                next_step=f"{run.plan.source.name} holds transactions of its own: find out why before you repoint.",
            )


class Verify(Step):
    """Replicating from the primary, close behind, and staying so; itself and read-only."""

    name = "verify"
    title = "Verify that the replica serves and stays caught up"

    def advance(self, run: Run) -> Outcome:
        doing, target = f"Verifying {run.plan.target.name}", run.plan.target
        with closing(run.target.connect(10.0)) as database:
            row = database.query("SELECT @@server_id AS server_id, @@read_only AS read_only")[0]
            link = read_link(database, run.flavor)
        fail_on_error(link, doing, run)
        if int(row["server_id"]) != target.configured_server_id or not int(row["read_only"]):
            raise RemoteFailure(
                "verify.identity", doing, found=f"server_id {row['server_id']}, read_only {row['read_only']}"
            )
        now = run.clock.now()
        close = link is not None and link.is_running and is_attached_to(link, run.plan.primary)
        close = (
            close
            and link is not None
            and link.lag_seconds is not None
            and link.lag_seconds <= run.settings.catch_up_lag_seconds
        )
        began = run.memory.setdefault("verify.began", now)
        if not close:
            run.memory.pop("verify.steady_since", None)
            if now - began > VERIFY_SECONDS:
                raise RemoteFailure(
                    "verify.lag",
                    doing,
                    found=f"it does not stay within {run.settings.catch_up_lag_seconds:.0f} s of the primary",
                    left=f"{target.name} serves and replicates from {run.plan.primary.name}; its old data is kept.",
                    next_step="Find out why it falls behind. The copy itself is whole.",
                )
            run.journal.progress(
                note=f"lag {link.lag_seconds if link and link.lag_seconds is not None else 'not known'}"
            )
            return again(0.4)
        since = run.memory.setdefault("verify.steady_since", now)
        if now - since < run.settings.verify_steady_seconds:
            return again(0.4)
        run.journal.say(
            f"{target.name} replicates from {run.plan.primary.name} and has stayed caught up.", host=target.host
        )
        return done()
