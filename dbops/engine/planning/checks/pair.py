"""Check source and target together."""

from collections.abc import Iterator

from dbops.engine.facts.instance import Tool
from dbops.engine.flavors import parse_version
from dbops.engine.flavors.versions import product_name
from dbops.engine.phrases import joined, phrase
from dbops.engine.planning.checks.findings import grants_advice, ok, refusal, unknown, warning
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.rebuilds.plan import Finding


def find_tool(member: KnownInstance, programs: tuple[str, ...]) -> Tool | None:
    """Return the first of ``programs`` that the member's host has."""
    host = member.facts.host if member.facts else None
    return next((host.tools[name] for name in programs if name in host.tools), None) if host else None


def source_is_another(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse one server as both, compared by name, address, data directory on the host, and the servers' own identities."""
    code, title = "pair.differ", phrase("Instances of source and target")
    source, target = inputs.source, inputs.target
    same = [
        word
        for word, left, right in (
            (phrase("name"), source.name, target.name),
            (phrase("address"), (source.address, source.port), (target.address, target.port)),
            (phrase("data directory"), (source.host, source.datadir), (target.host, target.datadir)),
            (phrase("data directory"), _place(source), _place(target)),
            (phrase("server uuid"), _uuid(source), _uuid(target)),
        )
        if left and left == right
    ]
    if same:
        yield refusal(
            code,
            title,
            phrase("Same {same}.", same=joined(dict.fromkeys(same), ", ")),
            phrase("Choose another source."),
        )
    else:
        yield ok(code, title, phrase("{source} is read; {target} is replaced.", source=source.name, target=target.name))


def _place(member: KnownInstance) -> tuple[str, str, str] | None:
    facts = member.facts
    if not (facts and facts.host and facts.datadir and facts.datadir.identity):
        return None
    return (facts.host.machine_id, facts.host.hostname, facts.datadir.identity)


def _uuid(member: KnownInstance) -> str:
    return member.server.server_uuid if member.server else ""


def members_of_one_cluster(inputs: PlanInputs) -> Iterator[Finding]:
    code, title = "pair.cluster", phrase("Clusters of source and target")
    if inputs.source.cluster != inputs.target.cluster:
        yield refusal(
            code,
            title,
            phrase(
                "{cluster} and {target_cluster}.", cluster=inputs.source.cluster, target_cluster=inputs.target.cluster
            ),
            phrase("Choose a source of the same cluster."),
        )
    elif inputs.primary is None:
        yield refusal(code, title, phrase("The cluster has no primary in the inventory."), phrase("Add the primary."))
    elif inputs.primary.server is None:
        yield refusal(
            code,
            title,
            phrase("The primary {primary} does not answer.", primary=inputs.primary.name),
            phrase("Fix the primary: the copy replicates from it."),
        )
    else:
        yield ok(
            code,
            title,
            phrase("{cluster}, primary {primary}.", cluster=inputs.target.cluster, primary=inputs.primary.name),
        )


def versions_fit(inputs: PlanInputs) -> Iterator[Finding]:
    """Require a target server of the source's series that is not older: an older server cannot open the files."""
    code, title = "pair.version", phrase("Flavors and versions")
    source, flavor = inputs.source.server, inputs.source.flavor
    if source is None or flavor is None:
        yield unknown(code, title, inputs.source.name)
        return
    target = inputs.target.server
    program = find_tool(inputs.target, flavor.server_programs)
    version = target.version if target else (program.version if program else None)
    if target and target.flavor != source.flavor:
        yield refusal(
            code,
            title,
            phrase(
                "{product_name} and {target_flavor}.",
                product_name=product_name(source.flavor),
                target_flavor=product_name(target.flavor),
            ),
            phrase("Choose a source of the same flavor."),
        )
    elif version is None:
        yield _no_server_version(inputs.target, program, flavor.server_programs, code, title)
    elif problem := flavor.clone_problem(parse_version(version)):
        yield refusal(
            code,
            title,
            problem,
            phrase(
                "Install {product_name} {version} on the target.",
                product_name=product_name(source.flavor),
                version=source.version,
            ),
        )
    else:
        yield ok(code, title, f"{product_name(source.flavor)} {source.version} -> {version}")


def _no_server_version(
    target: KnownInstance, program: Tool | None, names: tuple[str, ...], code: str, title: str
) -> Finding:
    if not (target.facts and target.facts.host):
        return unknown(code, title, phrase("{host} was not read", host=target.host))
    if program:
        return refusal(
            code, title, program.silence, phrase("Run this program on the target's host, and fix what it prints.")
        )
    return refusal(
        code,
        title,
        phrase("Missing on the target's host: {names}.", names=" or ".join(names)),
        phrase("Install the server there."),
    )


def tools_are_there(inputs: PlanInputs) -> Iterator[Finding]:
    flavor = inputs.source.flavor
    if flavor is None:
        return
    for role, member in (("source", inputs.source), ("target", inputs.target)):
        if not (member.facts and member.facts.host):
            continue
        code, title = f"tools.{role}", phrase("Backup tool on the {role}'s host", role=role)
        tool = find_tool(member, flavor.backup_programs)
        if tool is None:
            yield refusal(
                code,
                title,
                phrase(
                    "Missing: {backup_programs} on {host}.",
                    backup_programs=" or ".join(flavor.backup_programs),
                    host=member.host,
                ),
                phrase("Install the tool for the server's version."),
            )
        elif tool.version is None:
            yield refusal(
                code,
                title,
                tool.silence,
                phrase("Run this program on {host}, and fix what it prints.", host=member.host),
            )
        elif problem := flavor.tool_problem(tool.version):
            yield refusal(code, title, problem, phrase("Install the tool that fits the server."))
        elif note := flavor.tool_warning(tool.version):
            yield warning(code, title, note, phrase("Update the backup tool."))
        else:
            yield ok(code, title, f"{tool.path} {tool.version}")
        missing = [name for name in _programs_needed(role) if name not in member.facts.host.tools]
        if role == "target" and find_tool(member, flavor.unpack_programs) is None:
            missing.insert(0, " or ".join(flavor.unpack_programs))
        if find_tool(member, flavor.client_programs) is None:
            missing.insert(0, " or ".join(flavor.client_programs))
        if missing:
            yield refusal(
                f"programs.{role}",
                phrase("Programs to stream on the {role}'s host", role=role),
                phrase("Missing: {missing}.", missing=", ".join(missing)),
                phrase("Install them on that host."),
            )
        else:
            yield ok(
                f"programs.{role}",
                phrase("Programs to stream on the {role}'s host", role=role),
                phrase("All programs found."),
            )


def _programs_needed(role: str) -> tuple[str, ...]:
    return (
        ("bash", "flock", "setsid", "setpriv", "ssh", "ssh-keygen") if role == "target" else ("bash", "flock", "setsid")
    )


def formats_fit(inputs: PlanInputs) -> Iterator[Finding]:
    """Require equal page size and table name case: the data contains both, and the target's option file must agree."""
    source = inputs.formats_of
    target, config = inputs.target.server, inputs.target.facts.config if inputs.target.facts else None
    if source is None:
        return
    for code, title, option, have, want in (
        (
            "pair.page_size",
            phrase("Same page size"),
            "innodb_page_size",
            target.page_size if target else None,
            source.page_size,
        ),
        (
            "pair.lower_case_table_names",
            phrase("Same lower_case_table_names"),
            "lower_case_table_names",
            target.lower_case_table_names if target else None,
            source.lower_case_table_names,
        ),
    ):
        configured = config.options.get(option) if config else None
        value = have if have is not None else _number(configured)
        if value is None and config is None:
            yield unknown(
                code,
                title,
                phrase("the target's {option}; neither its server nor its option file was read", option=option),
            )
        elif value is None:
            yield ok(code, title, phrase("{want} on the source; the target uses the default.", want=want))
        elif value != want:
            yield refusal(
                code,
                title,
                phrase("Source {want}, target {value}.", want=want, value=value),
                phrase("Set {option} = {want} on the target.", option=option, want=want),
            )
        else:
            yield ok(code, title, str(want))


def _number(text: str | None) -> int | None:
    """Return an option's number; ``16k`` means 16384."""
    if not text:
        return None
    factor = {"k": 1024, "m": 1024**2}.get(text[-1].lower(), 1)
    digits = text.rstrip("kKmM")
    return int(digits) * factor if digits.isdigit() else None


def clocks_agree(inputs: PlanInputs) -> Iterator[Finding]:
    """Check the source's clock: the temporary key expires by it."""
    facts = inputs.source.facts
    if not (facts and facts.host):
        return
    offset = facts.host.clock_offset_seconds
    if abs(offset) > 60:
        yield warning(
            "pair.clock",
            phrase("Clock of the source"),
            phrase("Off by {offset} s.", offset=f"{offset:.0f}"),
            phrase("Fix its time service."),
        )
    else:
        yield ok("pair.clock", phrase("Clock of the source"), phrase("Off by {offset} s.", offset=f"{offset:.1f}"))


def local_logins_work(inputs: PlanInputs) -> Iterator[Finding]:
    """Check the dashboard's login over the local sockets: the guard and the last check of the target use it, not the network."""
    sides = [("target", inputs.target)] if inputs.archive else [("source", inputs.source), ("target", inputs.target)]
    for role, member in sides:
        facts = member.facts
        if facts is None or facts.server is None or facts.host is None or facts.admin_login is None:
            continue
        code, title = (
            f"{role}.admin_login",
            phrase("Local login on the {role}", role=role),
        )
        if facts.admin_login.error:
            advice = phrase(
                "Let the account log in over the local socket: without TLS, or with unix_socket or auth_socket."
            )
            yield refusal(code, title, facts.admin_login.error, advice)
        else:
            yield ok(code, title, phrase("Over the local socket."))


def dashboard_has_privileges(inputs: PlanInputs) -> Iterator[Finding]:
    """Check the dashboard's account on the source, whose accounts the copy has: a missing privilege would appear only after it."""
    server = inputs.source.facts.server if inputs.source.facts else None
    if server is None or server.missing_privileges is None:
        return
    code, title = "source.dashboard_account", phrase("Privileges of the dashboard's account")
    if server.missing_privileges:
        seen = phrase(
            "On the source it lacks {missing_privileges} on *.*; the copy has the same accounts.",
            missing_privileges=", ".join(server.missing_privileges),
        )
        yield refusal(code, title, seen, grants_advice(inputs.source.name))
    else:
        yield ok(code, title, phrase("All that a rebuild needs."))


def local_passwords_open_one_host(inputs: PlanInputs) -> Iterator[Finding]:
    """Check what a stolen password opens: the server's own account can listen on its socket, where clients send the password."""
    sides = [("target", inputs.target)] if inputs.archive else [("source", inputs.source), ("target", inputs.target)]
    for role, member in sides:
        if member.shared_logins is None:
            continue
        code, title = (
            f"{role}.shared_login",
            phrase("Passwords on the {role}'s host", role=role),
        )
        if member.shared_logins:
            seen = phrase(
                "{shared_logins} can log in to other hosts of the cluster with the same password.",
                shared_logins=", ".join(member.shared_logins),
            )
            advice = phrase("Use socket authentication on the hosts, or an account for each instance.")
            yield warning(code, title, seen, advice)
        else:
            yield ok(code, title, phrase("Socket authentication, or accounts of its own."))


CHECKS = (
    source_is_another,
    members_of_one_cluster,
    versions_fit,
    tools_are_there,
    formats_fit,
    clocks_agree,
    local_logins_work,
    dashboard_has_privileges,
    local_passwords_open_one_host,
)
