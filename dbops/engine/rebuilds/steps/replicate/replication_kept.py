"""The last settings of the target's replication, and the proof that it replicates as the plan says."""

from dbops.engine.errors import DbopsError, RemoteFailure, Unreachable
from dbops.engine.facts.instance import ReplicationFacts
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.channels import read_channels
from dbops.engine.flavors.connection_options import value_of
from dbops.engine.flavors.run_time_settings import same_setting, set_run_time, show_variables
from dbops.engine.phrases import joined, phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.rebuilds.plan import Plan, PlannedCommand, PlannedInstance
from dbops.engine.rebuilds.steps.replicate.replication import (
    is_attached_to,
    must_run,
    read_link,
    start_if_stopped,
    target_database,
)
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again
from dbops.engine.states import Level

OPERATION = phrase("Restoring how the target replicates")


def keep_commands(plan: Plan) -> tuple[PlannedCommand, ...]:
    """Return the statements of ``keep_replication`` as far as they are known before."""
    kept = plan.replication
    if kept is None or not (kept.delay_seconds or kept.variables):
        return ()
    flavor = flavor_for(plan.source.version, plan.flavor)
    change = [flavor.change_options(kept.channel, _all_set(kept, {}))] if kept.delay_seconds else []
    variables = [set_run_time(name, value) for name, value in kept.variables.items()]
    statements = [*flavor.stop_replication(), *change, *variables, *flavor.start_replication()]
    return tuple(PlannedCommand(plan.target.name, sql) for sql in statements)


def keep_replication(run: Run, database: Database) -> StepOutcome | None:
    """Set what the connection still lacks, once, and prove that it is as planned. Return when to check again, ``None`` if it is.

    A delay is the last setting: with it, nothing shows whether the copy keeps up. Filters and variables that were set by a statement are
    not in the option file, and a copy that follows the primary from the beginning has none yet.

    A variable that the server does not have or does not let dbops set stays, with a warning: the copy replicates all the same.

    Raises:
        RemoteFailure: ``replication.not_kept``: settings differ from the plan.
    """
    kept = run.plan.replication
    if kept is None:
        return None
    links = read_channels(database, run.flavor)
    link = links[0] if links else None
    missing = _missing(kept, link)
    differs = bool(link and kept.differing_filters(link.filters, run.flavor.filter_names))
    variables = _other_variables(database, kept)
    if not run.checkpoint.get("kept.set") and link and (missing or differs or variables):
        _set(run, database, kept, missing, filters=differs, variables=variables)
        return again(0.2)
    if wait := must_run(run, database, link, "kept", OPERATION):
        return wait
    if link and not link.is_running:
        return again(0.2)
    unset = run.checkpoint.get("kept.unset", ())
    wrong = _wrong(run, kept, links, missing) + [
        phrase("{name} is {value}, not {kept}", name=name, value=value, kept=kept.variables[name])
        for name, value in variables.items()
        if name not in unset
    ]
    if wrong:
        raise RemoteFailure("replication.not_kept", OPERATION, cause=joined(wrong, "; "))
    if "kept.logged" not in run.checkpoint:
        run.checkpoint["kept.logged"] = True
        count = sum(one.before == one.after and one.name not in unset for one in kept.settings)
        run.journal.say(
            phrase(
                "{target} replicates with its own settings again ({count} kept).",
                target=run.plan.target.name,
                count=count,
            )
        )
    return None


def start_again(run: Run) -> None:
    """Start replication that a last change stopped and did not start, for a rebuild that ends there.

    A server that refuses, or runs no more, does not keep the rebuild from ending: an error in the history says that replication is stopped.

    Raises:
        Unreachable: the state is unknown.
    """
    is_between = run.checkpoint.get("kept.begun") and not run.checkpoint.get("kept.set")
    if not is_between and not run.is_rejoining:
        return
    target = run.plan.target
    try:
        with target_database(run) as database:
            start_if_stopped(run, database, read_link(database, run.flavor), "kept")
    except Unreachable:
        raise
    except DbopsError as error:
        text = phrase("Replication of {target} is stopped. Start it. {error}", target=target.name, error=error)
        run.journal.say(text, level=Level.ERROR, host=target.host)


def is_close(run: Run, link: ReplicationFacts | None, party: PlannedInstance) -> bool:
    """Return whether the target follows ``party`` with little lag, its own delay aside."""
    return (
        link is not None
        and link.is_running
        and is_attached_to(link, party)
        and link.lag_seconds is not None
        and link.lag_seconds <= run.settings.catch_up_lag_seconds + _own_delay(run, link)
    )


def _own_delay(run: Run, link: ReplicationFacts) -> int:
    """Return the seconds that the target is behind on purpose, once its delay is set again, by whichever driver."""
    kept = run.plan.replication
    return kept.delay_seconds if kept and kept.delay_seconds == int(value_of("DELAY", link.options) or 0) else 0


def _missing(kept: KeptReplication, link: ReplicationFacts | None) -> dict[str, str]:
    return kept.differing(link.options) if link else {}


def _all_set(kept: KeptReplication, missing: dict[str, str]) -> dict[str, str]:
    """Return all options that are set: MariaDB resets the heartbeat where a statement does not name it (measured with 10.11)."""
    return {name: value for name, value in kept.options.items() if value} | missing


def _other_variables(database: Database, kept: KeptReplication) -> dict[str, str | None]:
    """Return the variables whose value differs from the plan, with that value, ``None`` if the server does not have them."""
    if not kept.variables:
        return {}
    rows = database.query(show_variables(kept.variables))
    found = {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}
    return {name: found.get(name) for name, value in kept.variables.items() if not _is(found.get(name), value)}


def _is(found: str | None, value: str) -> bool:
    return found is not None and same_setting(found, value)


def _set(
    run: Run,
    database: Database,
    kept: KeptReplication,
    options: dict[str, str],
    *,
    filters: bool,
    variables: dict[str, str | None],
) -> None:
    run.checkpoint["kept.begun"] = True
    statements = [*run.flavor.stop_replication()]
    if options:
        statements.append(run.flavor.change_options(kept.channel, _all_set(kept, options)))
    if filters:
        statements += run.flavor.set_filters(kept.channel, kept.filters)
    for number, statement in enumerate(statements):
        run.execute(run.target, database, f"kept.{number}", statement)
    unset = [name for name, found in variables.items() if not _set_variable(run, database, kept, name, found)]
    for number, statement in enumerate(run.flavor.start_replication(), len(statements)):
        run.execute(run.target, database, f"kept.{number}", statement)
    run.checkpoint |= {"kept.set": True, "kept.unset": unset}


def _set_variable(run: Run, database: Database, kept: KeptReplication, name: str, found: str | None) -> bool:
    """Set one variable, whose value is ``found`` now. Return whether the server took it. Raises ``Unreachable``."""
    key, statement = f"kept.{name}", set_run_time(name, kept.variables[name])
    cause: str = phrase("{name} is unknown to the server", name=name)
    if found is not None:
        try:
            run.execute(run.target, database, key, statement)
        except Unreachable:
            raise
        except RemoteFailure as error:
            run.journal.finished(key, 1, str(error))
            cause = error.cause
        else:
            return True
    text = phrase(
        "{name} of {target} could not be set: {cause}. If you need it, run: {statement}",
        name=name,
        target=run.plan.target.name,
        cause=cause,
        statement=statement,
    )
    run.journal.say(text, level=Level.WARNING, host=run.plan.target.host)
    return False


def _wrong(run: Run, kept: KeptReplication, links: list[ReplicationFacts], missing: dict[str, str]) -> list[str]:
    """Return the differences between the planned and the real replication, as pieces of a sentence."""
    if len(links) != 1:
        return [phrase("{count} connections instead of one", count=len(links))]
    link = links[0]
    found: list[str] = [
        phrase(
            "{name} is {found}, not {value}",
            name=name,
            found=link.options.get(name) or phrase("unset"),
            value=value or phrase("unset"),
        )
        for name, value in missing.items()
    ]
    if link.channel != kept.channel:
        found.append(
            phrase(
                "the connection is named {channel}, not {kept}",
                channel=repr(link.channel),
                kept=repr(kept.channel),
            )
        )
    for name in kept.differing_filters(link.filters, run.flavor.filter_names):
        have, want = link.filters.get(name), kept.filters.get(name)
        found.append(
            phrase(
                "{name} is {have}, not {want}", name=name, have=have or phrase("unset"), want=want or phrase("unset")
            )
        )
    if not is_attached_to(link, run.followed):
        found.append(
            phrase(
                "it replicates from {host}:{port}",
                host=link.source_host,
                port=link.source_port,
            )
        )
    return found
