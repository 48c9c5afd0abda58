"""Try the replication account from the target, as replication will log in, before anything is stopped."""

from contextlib import closing

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors.replication_login import replication_login
from dbops.engine.hosts.local_login import PLUGINS
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.rebuilds.plan import Plan, PlannedCommand, PlannedInstance
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.states import Level

#: Beside ``PLUGINS``: links to the same plugins of the target's server.
SERVER_PLUGINS = "server_plugins"


def sources_of(plan: Plan) -> tuple[PlannedInstance, ...]:
    """Return the servers that the target follows: the copied one until it has caught up, the primary, an intermediate replica."""
    found = [] if plan.follows_primary else [plan.source]
    found += [plan.primary, *([plan.upstream] if plan.upstream else [])]
    return tuple({(party.address, party.port): party for party in found}.values())


def is_optional(plan: Plan, party: PlannedInstance) -> bool:
    """Return whether the target follows it last and only if it can: the intermediate replica, where it is not copied, too."""
    needed = [plan.primary, *([] if plan.follows_primary else [plan.source])]
    return (party.address, party.port) not in {(one.address, one.port) for one in needed}


def trial_commands(plan: Plan) -> tuple[PlannedCommand, ...]:
    client = plan.programs.get("target.client", "")
    tls = " over TLS" if plan.replication and plan.replication.tls else ""
    return tuple(
        PlannedCommand(
            plan.target.name,
            f"{client} --host={party.address} --port={party.port} -e 'SELECT 1'   # as {plan.replication_user}{tls}",
        )
        for party in sources_of(plan)
    )


def try_replication_account(run: Run) -> None:
    """Log in to each server that the target will follow. A refusal by an intermediate replica is only a warning.

    Raises:
        RemoteFailure: another login failed (``replication.account``).
        Unreachable: the target's host did not answer.
    """
    kept, account, target = run.plan.replication or KeptReplication(), run.accounts.replication, run.plan.target
    server_plugins = _plugin_dir(run)
    login = replication_login(
        run.flavor,
        account.user,
        account.password,
        kept.options,
        plugin_dir=f"{run.target.jobs.run_directory}/{SERVER_PLUGINS if server_plugins else PLUGINS}",
    ).encode()
    open_to_it = []
    for party in sources_of(run.plan):
        place = f"{party.address}:{party.port}"
        try:
            run.act(
                run.target,
                f"preflight.replication.{party.name}",
                f"log in to {place} as {account.user}{' over TLS' if kept.tls else ''}",
                load("exchangeable", "login_plugins", "check_donor_login"),
                run.plan.programs["target.client"],
                party.address,
                str(party.port),
                server_plugins,
                stdin=login,
            )
        except Unreachable:
            raise
        except RemoteFailure as error:
            if is_optional(run.plan, party):
                _warn(run, party, error.cause)
                continue
            raise RemoteFailure(
                "replication.account",
                phrase(
                    "Trying the replication account on {target}'s host, at {server} ({place})",
                    target=target.name,
                    server=party.name,
                    place=place,
                ),
                cause=error.cause,
            ) from error
        open_to_it.append(party.name)
    run.journal.say(
        phrase(
            "The replication account can log in from {host} to {servers}.",
            host=target.host,
            servers=" and ".join(open_to_it),
        ),
        host=target.host,
    )


def _warn(run: Run, party: PlannedInstance, cause: str) -> None:
    target = run.plan.target
    text = phrase(
        "The replication account cannot log in from {host} to {server}: {cause}. {target} can stay at the primary.",
        host=target.host,
        server=party.name,
        cause=cause,
        target=target.name,
    )
    run.journal.say(text, level=Level.WARNING, host=target.host)


def _plugin_dir(run: Run) -> str:
    """Return where the target's server loads login plugins from, ``""`` if it is down."""
    if not run.plan.target.is_answering:
        return ""
    with closing(run.target.connect(10.0)) as database:
        [row] = database.query("SELECT @@plugin_dir AS place")
    return str(row["place"] or "")
