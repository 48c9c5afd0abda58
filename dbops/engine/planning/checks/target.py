"""Check that the target is the right instance to wipe."""

from collections.abc import Iterable, Iterator

from dbops.engine.facts.age import age_seconds
from dbops.engine.facts.instance import ServerFacts
from dbops.engine.phrases import joined, phrase
from dbops.engine.planning.checks import option_file, replication
from dbops.engine.planning.checks.findings import ok, refusal, unknown, warning
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.rebuilds.plan import Finding
from dbops.engine.states import Role


def facts_are_fresh(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse facts older than ``fresh_seconds``: they do not describe the current state."""
    code, title = "facts.fresh", phrase("Age of the facts")
    members = [member for member in (inputs.target, inputs.source, inputs.primary) if member]
    for member in members:
        if member.facts is None:
            yield unknown(code, title, member.name)
            continue
        age = age_seconds(member.facts.observed_at, inputs.now)
        if age is None:
            yield refusal(
                code,
                title,
                phrase("{member} was last probed in the future: the clock was set back.", member=member.name),
                phrase("Wait for the next probe, then reload this page."),
            )
        elif age > inputs.fresh_seconds:
            yield refusal(
                code,
                title,
                phrase(
                    "{member} last probed {age} s ago (limit {fresh_seconds} s).",
                    member=member.name,
                    age=f"{age:.0f}",
                    fresh_seconds=f"{inputs.fresh_seconds:.0f}",
                ),
                phrase("Check that worker and beat run, then reload this page."),
            )
        else:
            yield ok(code, title, phrase("{member} probed {age} s ago.", member=member.name, age=f"{age:.0f}"))


def target_host_answers(inputs: PlanInputs) -> Iterator[Finding]:
    target, title = inputs.target, phrase("Answer of the target's host")
    if target.facts is None:
        return
    if problem := target.facts.host_problem:
        yield refusal(
            "target.host", title, f"{problem.text} ({problem.code})", phrase("Fix SSH access to the target's host.")
        )
    else:
        yield ok(
            "target.host",
            title,
            phrase("{host} answers at {ssh_address}.", host=target.host, ssh_address=target.ssh_address),
        )


def target_is_no_primary_by_role(inputs: PlanInputs) -> Iterator[Finding]:
    code, title = "target.role", phrase("Role of the target")
    if inputs.target.role == Role.PRIMARY:
        yield refusal(
            code,
            title,
            phrase("{target} is the primary of its cluster.", target=inputs.target.name),
            phrase("A primary is never rebuilt."),
        )
    else:
        yield ok(code, title, phrase("{target} is a {role}.", target=inputs.target.name, role=inputs.target.role))


def target_is_read_only(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a server that accepts writes: it is a primary, whatever the inventory says."""
    code, title = "target.read_only", phrase("Writes on the target")
    server = inputs.target.server
    if server is None:
        if inputs.target.facts and inputs.target.facts.server_problem:
            problem = inputs.target.facts.server_problem
            yield warning(
                code,
                title,
                phrase("The server does not answer: {problem}", problem=problem.text),
                phrase(
                    "Make sure that this is the broken replica. dbops checks its identity on the host before it moves "
                    "data."
                ),
            )
        else:
            yield unknown(code, title, inputs.target.name)
    elif not server.read_only:
        yield refusal(
            code,
            title,
            phrase("{target} has read_only = 0 and may be a primary.", target=inputs.target.name),
            phrase("If it is a replica, run SET GLOBAL read_only = 1 and plan again."),
        )
    else:
        yield ok(code, title, phrase("read_only = 1"))


def target_has_no_replicas(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a target that other instances replicate from, by the target's own facts and those of every other instance."""
    code, title = "target.replicas", phrase("Replicas of the target")
    target = inputs.target
    attached = [
        item.host or phrase("server id {server_id}", server_id=item.server_id)
        for item in (target.server.replicas if target.server else ())
    ]
    attached += [member.name for member in inputs.members if member.name != target.name and _reads_from(member, target)]
    if attached:
        yield refusal(
            code,
            title,
            phrase("Replicas are attached: {attached}.", attached=joined(sorted(set(attached)), ", ")),
            phrase("Repoint them first."),
        )
    else:
        yield ok(code, title, phrase("None."))


def _reads_from(member: KnownInstance, target: KnownInstance) -> bool:
    links = member.server.replication if member.server else ()
    return any((link.source_host, link.source_port) == (target.address, target.port) for link in links)


def target_is_no_write_address(inputs: PlanInputs) -> Iterator[Finding]:
    code, title = "target.write_address", phrase("Address of the target")
    target = inputs.target
    own = {target.address, target.ssh_address, f"{target.address}:{target.port}"}
    hits = sorted(own & set(inputs.write_addresses))
    primaries = sorted(
        member.name
        for member in inputs.members
        if member.role == Role.PRIMARY and (member.address, member.port) == (target.address, target.port)
    )
    if hits or primaries:
        yield refusal(
            code,
            title,
            phrase("Applications write to {hits}.", hits=", ".join(hits + primaries)),
            phrase("Correct the inventory, or choose the right target."),
        )
    else:
        yield ok(
            code, title, phrase("{address}:{port} is not a write address.", address=target.address, port=target.port)
        )


def target_has_no_clients(inputs: PlanInputs) -> Iterator[Finding]:
    code, title = "target.clients", phrase("Clients of the target")
    server = inputs.target.server
    if server is None:
        return
    if server.clients:
        names = sorted({f"{client.user}@{client.host}" for client in server.clients})
        shown = ", ".join(names[:5])
        if len(names) > 5:
            shown = phrase("{shown} and {rest} more", shown=shown, rest=len(names) - 5)
        yield warning(
            code,
            title,
            phrase("{number} connections: {shown}.", number=len(server.clients), shown=shown),
            phrase("The rebuild ends these connections. Remove the target from the load balancer first."),
        )
    else:
        yield ok(code, title, phrase("None."))


def target_holds_nothing_of_its_own(inputs: PlanInputs) -> Iterator[Finding]:
    """Check for errant transactions: they exist only on the target and are lost with its data directory."""
    code, title = "target.errant", phrase("Errant transactions of the target")
    target, primary = inputs.target.server, inputs.primary.server if inputs.primary else None
    flavor = inputs.target.flavor
    if target is None or primary is None or flavor is None or target.flavor != primary.flavor:
        yield warning(
            code,
            title,
            phrase("Unknown: target or primary does not answer, or their flavors differ."),
            phrase("Data that exists only on the target is lost."),
        )
        return
    if not target.gtid_enabled:
        yield warning(
            code,
            title,
            phrase("Unknown: the target does not use GTID."),
            phrase("Data that exists only on it is lost."),
        )
        return
    missing = flavor.gtid_missing(
        target.gtid_binlog or target.gtid_executed, primary.gtid_binlog or primary.gtid_executed
    )
    lost = not_written_by(primary, missing, inputs.members)
    if lost:
        yield warning(
            code,
            title,
            phrase("The primary does not have {lost}.", lost=lost),
            phrase("These transactions are lost. Save them first if they matter."),
        )
    else:
        yield ok(code, title, phrase("The primary has all transactions of the target."))


def not_written_by(primary: ServerFacts, gtids: str, members: Iterable[KnownInstance] = ()) -> str:
    """Leave out transactions of the primary and its group: under load it is read a moment before the target, which is then ahead.

    On MariaDB a group's transactions have the server ids of its members: of these, ``members`` has those of the inventory.
    """
    origins = {str(primary.server_id), primary.server_uuid.lower()} - {""}
    if group := primary.group:
        origins |= set(group.origins)
        origins |= {str(one.server.server_id) for one in members if one.server and group.is_of(one.server.group)}

    def origin(entry: str) -> str:
        return entry.split(":", 1)[0].lower() if ":" in entry else entry.split("-")[1]

    return ",".join(entry for entry in gtids.split(",") if entry and origin(entry) not in origins)


def target_can_be_started_and_stopped(inputs: PlanInputs) -> Iterator[Finding]:
    code, title = "target.service", phrase("Stop and start commands of the target")
    target = inputs.target
    if target.start_command and target.stop_command:
        yield ok(code, title, f"{target.stop_command}; {target.start_command}")
    else:
        yield refusal(
            code,
            title,
            phrase("The inventory has no start and stop command."),
            phrase("Add both commands to the instance."),
        )


CHECKS = (
    facts_are_fresh,
    target_host_answers,
    target_is_no_primary_by_role,
    target_is_read_only,
    target_has_no_replicas,
    target_is_no_write_address,
    target_has_no_clients,
    target_holds_nothing_of_its_own,
    target_can_be_started_and_stopped,
    *option_file.CHECKS,
    *replication.CHECKS,
)
