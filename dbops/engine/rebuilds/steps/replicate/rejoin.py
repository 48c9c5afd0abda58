"""Return the target to the intermediate replica that it followed, when it has caught up with the primary.

All proofs are made against the primary, so this is the last change. It needs an intermediate replica that has everything the target has: a
server refuses a replica that is ahead. Whatever fails leaves the target at the primary, with a warning.
"""

from contextlib import closing
from dataclasses import replace

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.base import ReplicationSource
from dbops.engine.hosts.local_login import Account
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.rebuilds.plan import Plan, PlannedCommand, PlannedInstance
from dbops.engine.rebuilds.steps.replicate.errant import must_have_nothing_errant
from dbops.engine.rebuilds.steps.replicate.replication import (
    MASKED,
    is_attached_to,
    must_run,
    read_link,
    read_position,
    replication_source,
    shown_change,
)
from dbops.engine.rebuilds.steps.replicate.replication_kept import is_close
from dbops.engine.rebuilds.steps.run import Run, Server, StepOutcome, again
from dbops.engine.states import Level

#: How long the target's replication may be stopped until the intermediate replica has what the target has.
WAIT_SECONDS = 30.0
#: How long the target may take to follow it.
FOLLOW_SECONDS = 120.0
#: A longer time without a look is that of no driver, or of a run that was resumed: it does not count.
SILENCE_SECONDS = 5.0
#: Where the target is, in ``run.checkpoint["rejoin"]``: waiting, following, going back to the primary; and the two ends.
WAITS, FOLLOWS, BACK, DONE, STAYS = "waits", "follows", "back", "done", "stays"


def rejoin_commands(plan: Plan) -> tuple[PlannedCommand, ...]:
    """Return the statements of ``rejoin``, for the plan page."""
    if plan.upstream is None:
        return ()
    flavor = flavor_for(plan.source.version, plan.flavor)
    statements = [
        *flavor.stop_replication(),
        shown_change(flavor, _source(plan, plan.upstream, Account(plan.replication_user, MASKED))),
        *flavor.start_replication(),
    ]
    return tuple(PlannedCommand(plan.target.name, sql) for sql in statements)


def rejoin(run: Run, database: Database) -> StepOutcome | None:
    """Do the next part. Return when to continue, ``None`` if the target is where it stays.

    Raises:
        RemoteFailure: the target cannot follow the primary again either (``replication.error``), or as ``Database.query``.
    """
    upstream, primary = run.upstream, run.plan.primary
    if upstream is None or (upstream.party.address, upstream.party.port) == (primary.address, primary.port):
        return None
    state = run.checkpoint.setdefault("rejoin", {"phase": WAITS})
    if state["phase"] in (DONE, STAYS):
        return None
    now = run.clock.now()
    if abs(now - state.get("looked_at", 0.0)) > SILENCE_SECONDS:
        state["since"] = now
    part = {WAITS: _wait, FOLLOWS: _follow, BACK: _return}[state["phase"]]
    outcome = part(run, database, upstream)
    run.checkpoint["rejoin"]["looked_at"] = run.clock.now()
    return outcome


def _wait(run: Run, database: Database, upstream: Server) -> StepOutcome:
    """Stop the target, so that the intermediate replica can reach it, and let it follow."""
    link = read_link(database, run.flavor)
    if link is None or (link.io_running, link.sql_running) != ("No", "No"):
        _stop(run, database, "rejoin.wait")
    try:
        reached = _has_everything(run, database, upstream)
    except Unreachable:
        reached = False
    except RemoteFailure as error:
        return _give_up(run, database, error.cause)
    if not reached:
        return _later(run, database, WAIT_SECONDS, f"{upstream.party.name} does not have all that the target has")
    _point_to(run, database, "rejoin", upstream.party)
    run.checkpoint["rejoin"] = {"phase": FOLLOWS, "since": run.clock.now()}
    return again(0.2)


def _follow(run: Run, database: Database, upstream: Server) -> StepOutcome:
    link = read_link(database, run.flavor)
    try:
        wait = must_run(run, database, link, "rejoin", f"Replicating from {upstream.party.name}")
    except Unreachable:
        raise
    except RemoteFailure as error:
        return _give_up(run, database, error.cause)
    if wait:
        return wait
    if not is_close(run, link, upstream.party):
        return _later(run, database, FOLLOW_SECONDS, f"it does not keep up with {upstream.party.name}")
    run.checkpoint["rejoin"] = {"phase": DONE}
    run.journal.say(
        phrase("{target} replicates from {server} again.", target=run.plan.target.name, server=upstream.party.name),
        host=run.plan.target.host,
    )
    return again(0.0)


def _return(run: Run, database: Database, upstream: Server) -> StepOutcome:
    link, primary = read_link(database, run.flavor), run.plan.primary
    if not is_attached_to(link, primary):
        _point_to(run, database, "rejoin-back", primary)
        return again(0.2)
    if wait := must_run(run, database, link, "rejoin-back", f"Replicating from the primary {primary.name}"):
        return wait
    why = run.checkpoint["rejoin"]["why"]
    run.checkpoint["rejoin"] = {"phase": STAYS}
    text = phrase(
        "{target} stays at the primary {primary}, not at {server}: {why}.",
        target=run.plan.target.name,
        primary=primary.name,
        server=upstream.party.name,
        why=why,
    )
    run.journal.say(text, level=Level.WARNING, host=run.plan.target.host)
    return again(0.0)


def _has_everything(run: Run, database: Database, upstream: Server) -> bool:
    """Return whether the intermediate replica logs all that the stopped target has executed.

    Raises:
        RemoteFailure: it is another server now, no longer follows the primary, or has transactions that the primary lacks.
    """
    party, primary = upstream.party, run.plan.primary
    have = read_position(database, run.flavor)[0]
    with closing(upstream.connect(10.0)) as server:
        row = server.query("SELECT @@server_id AS server_id, @@read_only AS read_only")[0]
        link = read_link(server, run.flavor)
        if int(row["server_id"]) != party.server_id or not int(row["read_only"]):
            raise _unfit(
                run,
                phrase(
                    "{server} has server_id {server_id} and read_only {read_only}",
                    server=party.name,
                    server_id=row["server_id"],
                    read_only=row["read_only"],
                ),
            )
        if link is None or not link.is_running or not is_attached_to(link, primary):
            raise _unfit(run, phrase("{server} does not replicate from the primary", server=party.name))
        must_have_nothing_errant(run, server, state="", is_copy=False)
        _, logged = read_position(server, run.flavor)
    return not run.flavor.gtid_missing(have, logged)


def _unfit(run: Run, cause: str) -> RemoteFailure:
    return RemoteFailure("replication.error", phrase("Returning {target}", target=run.plan.target.name), cause=cause)


def _later(run: Run, database: Database, limit_seconds: float, why: str) -> StepOutcome:
    waited = run.clock.now() - run.checkpoint["rejoin"]["since"]
    return again(0.2) if waited <= limit_seconds else _give_up(run, database, why)


def _give_up(run: Run, database: Database, why: str) -> StepOutcome:
    """Let the target follow the primary again."""
    run.checkpoint["rejoin"] = {"phase": BACK, "why": why}
    _point_to(run, database, "rejoin-back", run.plan.primary)
    return again(0.2)


def _point_to(run: Run, database: Database, key: str, party: PlannedInstance) -> None:
    source = _source(run.plan, party, run.accounts.replication)
    _stop(run, database, key)
    sql, parameters = run.flavor.replicate_from(source)
    run.execute(run.target, database, f"{key}.change", sql, parameters, shown=shown_change(run.flavor, source))
    for number, statement in enumerate(run.flavor.start_replication()):
        run.execute(run.target, database, f"{key}.start.{number}", statement)


def _stop(run: Run, database: Database, key: str) -> None:
    for number, statement in enumerate(run.flavor.stop_replication()):
        run.execute(run.target, database, f"{key}.stop.{number}", statement)


def _source(plan: Plan, party: PlannedInstance, account: Account) -> ReplicationSource:
    """Return the server with all options of the target's connection, the delay included."""
    kept = plan.replication or KeptReplication()
    return replace(replication_source(plan, party, account, start=None), options=kept.options)
