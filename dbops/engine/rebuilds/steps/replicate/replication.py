"""Replication on the target: read, repoint and start it. Shared by the steps that catch up and repoint."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.facts.instance import ReplicationFacts
from dbops.engine.flavors import Flavor
from dbops.engine.flavors.base import Coordinates, ReplicationSource
from dbops.engine.hosts.local_login import Account
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.rebuilds.plan import Plan, PlannedInstance
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location, inspect_host
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again

MASKED = "********"
#: How long to wait for a service manager to restart a server that died.
SERVER_GONE_SECONDS = 60.0
#: How long a replica may try to connect after repointing: a wrong password is retried forever. The server itself
#: retries once a minute, and a cut of some seconds must not end a rebuild of hours: so it gets two more tries.
CONNECT_SECONDS = 150.0
#: A repointed replica connects within some ten milliseconds: the first checks come quickly, later ones less often.
FIRST_CHECK_SECONDS, LATER_CHECK_SECONDS = 0.05, 0.4
#: Maximum time between two checks; after more (no live worker, silent host) the replica may have had no chance to connect.
UNSEEN_SECONDS = 30.0


@contextmanager
def target_database(run: Run) -> Iterator[Database]:
    """Connect to the target's server. If it is gone while its host answers, waiting does not bring it back.

    Raises:
        RemoteFailure: no server has run on the copy for a minute (``target.server_died``).
        Unreachable: the state is unknown, or the server is restarting.
    """
    try:
        with closing(run.target.connect(10.0)) as database:
            yield database
            run.checkpoint.pop("server_gone_since", None)
    except Unreachable as silence:
        if not silence.code.startswith("mysql."):
            raise
        inspect_host(run)
        if run.checkpoint["found"].get("pids", "").strip():
            run.checkpoint.pop("server_gone_since", None)
            raise
        since = run.checkpoint.setdefault("server_gone_since", run.clock.now())
        if run.clock.now() - since < SERVER_GONE_SECONDS:
            raise
        raise RemoteFailure(
            "target.server_died",
            phrase("Connecting to the server of {target}", target=run.plan.target.name),
            cause=phrase(
                "its host answers, but no server has been running on {datadir} for {seconds} s",
                datadir=run.plan.target.datadir,
                seconds=f"{SERVER_GONE_SECONDS:.0f}",
            ),
            state=describe_data_location(run),
        ) from silence


def read_link(database: Database, flavor: Flavor) -> ReplicationFacts | None:
    """Return the state of the one replication connection, ``None`` if there is none."""
    rows = database.query(flavor.show_replication)
    return flavor.parse_replication(rows[0]) if rows else None


def read_position(database: Database, flavor: Flavor) -> tuple[str, str]:
    """Return the executed transactions of the server, and those in its binary log, as GTID positions."""
    names = ("gtid_current_pos", "gtid_binlog_pos") if flavor.name == "mariadb" else ("gtid_executed", "gtid_executed")
    row = database.query(f"SELECT @@GLOBAL.{names[0]} AS executed, @@GLOBAL.{names[1]} AS logged")[0]
    return str(row["executed"] or ""), str(row["logged"] or "")


def fail_on_error(link: ReplicationFacts | None, operation: str, run: Run) -> None:
    """Raise if replication cannot recover on its own: a thread has stopped with an error, or cannot connect for some minutes."""
    error = link.last_io_error or link.last_sql_error if link else phrase("no replication is configured")
    stopped = link is None or link.sql_running == "No" or link.io_running == "No"
    if not stopped and link and link.io_running != "Yes":
        stopped = _connecting_seconds(run) > CONNECT_SECONDS
        error = error or phrase("it can't connect and reports no error")
    else:
        run.checkpoint.pop("connecting", None)
    if stopped and error:
        raise RemoteFailure(
            "replication.error",
            operation,
            cause=error,
        )


def _connecting_seconds(run: Run) -> float:
    """Return for how long it has tried to connect, summed over the checks; time without checks does not count."""
    now = run.clock.now()
    seconds, seen_at = run.checkpoint.get("connecting", (0.0, now))
    if now - seen_at <= UNSEEN_SECONDS:
        seconds += now - seen_at
    run.checkpoint["connecting"] = (seconds, now)
    return float(seconds)


def replication_source(
    plan: Plan, party: PlannedInstance, account: Account, *, start: Coordinates | None, catches_up: bool = False
) -> ReplicationSource:
    """Return ``party`` as a source, with the target's own settings as far as they may hold now.

    ``catches_up``: without filters, so that the copy gets all that ``party`` has.
    """
    kept = plan.replication or KeptReplication()
    return ReplicationSource(
        host=party.address,
        port=party.port,
        user=account.user,
        password=account.password,
        gtid=plan.uses_gtid,
        start=start,
        channel=kept.channel,
        options=kept.while_catching_up if catches_up else kept.before_verification,
    )


def shown_change(flavor: Flavor, source: ReplicationSource) -> str:
    """Return the statement as a person would type it, the password masked."""
    sql, parameters = flavor.replicate_from(source)
    words = [MASKED if value == source.password else value for value in parameters]
    return sql % tuple(repr(word) if isinstance(word, str) else word for word in words)


def replicate_from(
    run: Run, database: Database, key: str, party: PlannedInstance, *, start: Coordinates | None
) -> None:
    """Repoint the target to ``party`` and start. Raises as ``Run.execute``."""
    catches_up = key == "catch-up"
    source = replication_source(run.plan, party, run.accounts.replication, start=start, catches_up=catches_up)
    sql, parameters = run.flavor.replicate_from(source)
    run.execute(run.target, database, f"{key}.change", sql, parameters, shown=shown_change(run.flavor, source))
    for number, statement in enumerate(run.flavor.start_replication()):
        run.execute(run.target, database, f"{key}.start.{number}", statement)
    run.checkpoint[f"{key}.pointed_at"] = run.clock.now()


def start_if_stopped(run: Run, database: Database, link: ReplicationFacts | None, key: str) -> bool:
    """Start replication that was repointed but not started: its driver died in between, leaving both threads stopped without an error."""
    if link is None or (link.io_running, link.sql_running) != ("No", "No"):
        return False
    for number, statement in enumerate(run.flavor.start_replication()):
        run.execute(run.target, database, f"{key}.start-again.{number}", statement)
    return True


def must_run(
    run: Run, database: Database, link: ReplicationFacts | None, key: str, operation: str
) -> StepOutcome | None:
    """Check that the target replicates from its expected source. Return when to check again, ``None`` if it does.

    Args:
        key: of the rows of the statements that may be needed.
        operation: for the error, one sentence.

    Raises:
        RemoteFailure: replication cannot recover on its own (``replication.error``).
    """
    if restart_for_retry(run, database, link, key):
        return again(1.0)
    fail_on_error(link, operation, run)
    if start_if_stopped(run, database, link, key):
        return again(0.2)
    return None


def probe_again(run: Run, key: str) -> StepOutcome:
    """Return when to check a replica again that was repointed under this key: less often, the longer ago that was."""
    seconds = (run.clock.now() - run.checkpoint.get(f"{key}.pointed_at", 0.0)) / 2
    return again(min(LATER_CHECK_SECONDS, max(FIRST_CHECK_SECONDS, seconds)))


def restart_for_retry(run: Run, database: Database, link: ReplicationFacts | None, key: str) -> bool:
    """Restart replication that stopped with an error once in a resume, before its error counts."""
    if run.copy_run == run.run_id or run.checkpoint.get("restarted") or link is None or link.is_running:
        return False
    for number, statement in enumerate([*run.flavor.stop_replication(), *run.flavor.start_replication()]):
        run.execute(run.target, database, f"{key}.restart.{number}", statement)
    run.checkpoint["restarted"] = True
    return True


def is_attached_to(link: ReplicationFacts | None, party: PlannedInstance) -> bool:
    return link is not None and (link.source_host, link.source_port) == (party.address, party.port)


def point_to_primary(run: Run, database: Database, *, start: Coordinates | None) -> None:
    """Stop, change and start replication on the target."""
    for number, statement in enumerate(run.flavor.stop_replication()):
        run.execute(run.target, database, f"repoint.stop.{number}", statement)
    replicate_from(run, database, "repoint", run.plan.primary, start=start)
    run.journal.say(
        phrase(
            "{target} replicates from the primary {primary}.",
            target=run.plan.target.name,
            primary=run.plan.primary.name,
        )
    )
