"""Snapshots of both servers at one GTID position under writes: the target stops for a moment where the other one's snapshot is.

Replication of the target starts again as soon as both snapshots are open, also after an error. If the worker dies in between, the
checkpoint says so (``certify.paused``) and the next one starts it.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.bounded import Bounded
from dbops.engine.rebuilds.certificate.rows import SESSION
from dbops.engine.rebuilds.steps.certify.reference import (
    READ_SECONDS,
    ReferenceServer,
    connect_again,
    connect_to_target,
)
from dbops.engine.rebuilds.steps.replicate.replication import read_link, read_position
from dbops.engine.rebuilds.steps.run import Run

#: How long both servers may take to come to one position.
MEET_SECONDS = 7.0
#: One statement on a snapshot, and all of them; with the time to meet, a call stays below 30 s.
LONGEST_SECONDS, SNAPSHOT_SECONDS = 12.0, 18.0
POLL_SECONDS = 0.02
SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
SAVE, RELEASE = "SAVEPOINT compared", "ROLLBACK TO SAVEPOINT compared"


@contextmanager
def common_snapshot(run: Run, reference: ReferenceServer) -> Iterator[tuple[str, Bounded, Bounded]]:
    """Open two connections with a snapshot each; the position is empty where both did not meet.

    Raises:
        Unreachable, RemoteFailure: see ``Database.query``; and as ``StepJournal.check``.
    """
    here, there = connect_to_target(run, LONGEST_SECONDS), connect_again(run, reference, LONGEST_SECONDS)
    try:
        for database in (here, there):
            for statement in (*SESSION, ISOLATION):
                database.execute(statement)
        # of its own: a session with a snapshot cannot stop replication
        with closing(run.target.connect(READ_SECONDS)) as control:
            # connected before its right to stop replication is checked: a server that was replaced since gets no statement
            control.query("SELECT 1")
            try:
                _pause(run, control)
                position = _meet(run, reference, control, there)
                here.execute(SNAPSHOT)
            finally:
                replicate_again(run, control)
            run.journal.check()  # writes that it replicates
        for database in (here, there):
            database.execute(SAVE)
            database.begin(SNAPSHOT_SECONDS)
        yield position, here, there
    finally:
        here.close()
        there.close()


def _pause(run: Run, target: Database) -> None:
    run.checkpoint["certify.paused"] = True
    statements = run.flavor.stop_replication() if run.flavor.name == "mariadb" else [run.flavor.pause_applier()]
    for statement in statements:
        run.execute(run.target, target, "certify.pause", statement)


def replicate_again(run: Run, target: Database) -> None:
    """Start the target's replication, if the comparison stopped it. Raises as ``Database.query``."""
    if run.checkpoint.get("certify.paused"):
        # a stop first: it forgets the position at which the target was to stop
        for statement in (*run.flavor.stop_replication(), *run.flavor.start_replication()):
            target.execute(statement)
        run.checkpoint["certify.paused"] = False


def _meet(run: Run, reference: ReferenceServer, target: Database, other: Database) -> str:
    """Bring the paused target to the position of a new snapshot of the other server. Return it, empty after ``MEET_SECONDS``."""
    deadline = run.clock.now() + MEET_SECONDS
    while run.clock.now() < deadline:
        position = _snapshot(reference, other)
        have, _ = read_position(target, run.flavor)
        if position and not run.flavor.gtid_missing(have, position):
            _go_to(run, target, position, deadline)
            have, _ = read_position(target, run.flavor)
            exact = not (run.flavor.gtid_missing(have, position) or run.flavor.gtid_missing(position, have))
            return position if exact else ""
        run.clock.sleep(POLL_SECONDS)
    return ""


def _snapshot(reference: ReferenceServer, other: Database) -> str:
    """Begin a snapshot and return its position, empty if it is uncertain."""
    other.execute("ROLLBACK")
    if reference.flavor.name == "mariadb":
        other.execute(SNAPSHOT)
        rows = other.query("SHOW STATUS LIKE 'binlog_snapshot_%'")
        found = {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}
        log_file, log_pos = found.get("binlog_snapshot_file", ""), found.get("binlog_snapshot_position", "")
        if not (log_file and log_pos.isdigit()):
            return ""
        row = other.query("SELECT BINLOG_GTID_POS(%s, %s) AS gtid", (log_file, int(log_pos)))[0]
        return str(row["gtid"] or "")
    before, _ = read_position(other, reference.flavor)
    other.execute(SNAPSHOT)
    after, _ = read_position(other, reference.flavor)
    return after if before == after else ""


def _go_to(run: Run, target: Database, position: str, deadline: float) -> None:
    have, _ = read_position(target, run.flavor)
    if not run.flavor.gtid_missing(position, have):
        return
    link = read_link(target, run.flavor)
    channel = link.channel if link else ""
    if run.flavor.name == "mariadb":
        sql, parameters = "START SLAVE UNTIL master_gtid_pos = %s", [position]
        if channel:
            sql, parameters = "START SLAVE %s UNTIL master_gtid_pos = %s", [channel, position]
    else:
        sql, parameters = f"{run.flavor.resume_applier()} UNTIL SQL_AFTER_GTIDS = %s", [position]
        if channel:
            sql, parameters = f"{sql} FOR CHANNEL %s", [position, channel]
    target.execute(sql, parameters)
    while run.clock.now() < deadline:
        link = read_link(target, run.flavor)
        if link is None or link.sql_running == "No":
            break
        run.clock.sleep(POLL_SECONDS)
    for statement in run.flavor.stop_replication() if run.flavor.name == "mariadb" else [run.flavor.pause_applier()]:
        target.execute(statement)
