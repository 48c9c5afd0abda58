"""Check the requirements of the clone method."""

from collections.abc import Iterator

from dbops.engine.facts.instance import CloneFacts
from dbops.engine.flavors import parse_version
from dbops.engine.flavors.versions import product_name
from dbops.engine.phrases import phrase
from dbops.engine.planning.checks.findings import gib, ok, refusal, unknown, warning
from dbops.engine.planning.checks.pair import find_tool
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.clone import FIRST_WITHOUT_DDL_LOCK, LIBRARY, PACKET_BYTES, version_problem
from dbops.engine.rebuilds.plan import Finding

ANOTHER_WAY = phrase("Choose another method.")


def clone_facts(inputs: PlanInputs) -> CloneFacts | None:
    """Return the donor's facts about cloning; ``None`` if it did not answer, is not MySQL, or was probed by an older release."""
    server = inputs.source.server
    return server.clone if server and server.flavor == "mysql" else None


def both_can_clone(inputs: PlanInputs) -> Iterator[Finding]:
    code, title = "clone.version", phrase("Versions for clone")
    source, flavor, target = inputs.source.server, inputs.source.flavor, inputs.target
    if source is None or flavor is None:
        yield unknown(code, title, inputs.source.name)
        return
    if source.flavor != "mysql":
        yield refusal(
            code,
            title,
            phrase(
                "{source} is {product_name}, not MySQL.",
                source=inputs.source.name,
                product_name=product_name(source.flavor),
            ),
            ANOTHER_WAY,
        )
        return
    if target.server and target.server.flavor != "mysql":
        yield refusal(
            code,
            title,
            phrase(
                "{target} is {product_name}, not MySQL.",
                target=target.name,
                product_name=product_name(target.server.flavor),
            ),
            ANOTHER_WAY,
        )
        return
    program = find_tool(target, flavor.server_programs)
    version = target.server.version if target.server else (program.version if program else None)
    if version is None:
        yield unknown(code, title, phrase("the version of the target's server"))
    elif problem := version_problem(parse_version(source.version), parse_version(version)):
        yield refusal(code, title, problem, ANOTHER_WAY)
    else:
        yield ok(code, title, phrase("MySQL {version} -> {version_2}", version=source.version, version_2=version))


def the_plugin_can_be_had(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, facts = "clone.plugin", phrase("Clone plugin of the source"), clone_facts(inputs)
    if inputs.source.server is None or inputs.source.server.flavor != "mysql":
        return
    version = parse_version(inputs.source.server.version)
    if version_problem(version, version):  # it has no such plugin, so none was looked for
        return
    if facts is None:
        yield unknown(code, title, phrase("the clone plugin of the source"))
    elif facts.plugin == "ACTIVE":
        yield ok(code, title, phrase("Active."))
    elif facts.plugin:
        yield refusal(
            code,
            title,
            phrase("Plugin state: {plugin}.", plugin=facts.plugin),
            phrase("Enable the plugin on the source (clone = ON)."),
        )
    else:
        yield ok(
            code,
            title,
            phrase("Not loaded: {library} is installed for the rebuild and removed at the end.", library=LIBRARY),
        )


def the_donor_takes_the_account(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a donor with super_read_only: account and plugin are rows, and not even an administrator can add them (error 1290)."""
    code, title, facts = (
        "clone.super_read_only",
        phrase("Clone account on the source"),
        clone_facts(inputs),
    )
    if facts is None:
        return
    if facts.super_read_only:
        yield refusal(
            code,
            title,
            phrase("super_read_only is ON."),
            phrase(
                "SET GLOBAL super_read_only = OFF on the source during the rebuild (read_only stays ON), or choose "
                "another method."
            ),
        )
    else:
        yield ok(code, title, phrase("super_read_only is OFF."))


def tables_are_cloned(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse tables of other engines: clone copies InnoDB only, and they arrive empty (manual, "Clone Plugin Limitations")."""
    code, title, server = "clone.engines", phrase("Engines of the tables"), inputs.source.server
    if server is None or server.flavor != "mysql":
        return
    if server.foreign_engines:
        seen = ", ".join(f"{count} {engine}" for engine, count in sorted(server.foreign_engines.items()))
        yield refusal(code, title, phrase("Not InnoDB: {seen}. Their rows would be missing.", seen=seen), ANOTHER_WAY)
    else:
        yield ok(code, title, phrase("InnoDB only."))


def packets_are_large_enough(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, facts = "clone.packet", phrase("max_allowed_packet of the source"), clone_facts(inputs)
    if facts is None:
        return
    if facts.max_allowed_packet < PACKET_BYTES:
        seen = phrase(
            "{max_allowed_packet} on the source; clone needs {packet_bytes}.",
            max_allowed_packet=gib(facts.max_allowed_packet),
            packet_bytes=gib(PACKET_BYTES),
        )
        advice = phrase("{statement} on the source.", statement="SET GLOBAL max_allowed_packet = 64 * 1024 * 1024")
        yield refusal(code, title, seen, advice)
    else:
        yield ok(code, title, gib(facts.max_allowed_packet))


def platforms_agree(inputs: PlanInputs) -> Iterator[Finding]:
    """Require the same platform and server character set on both (manual, "Remote Cloning Prerequisites")."""
    code, title, facts = "clone.platform", phrase("Platform and character set"), clone_facts(inputs)
    target = inputs.target.server
    if facts is None:
        return
    if target is None or target.clone is None:
        config = inputs.target.facts.config if inputs.target.facts else None
        charset = config.options.get("character_set_server") if config else None
        if config is None:
            yield unknown(
                code, title, phrase("the target's character set; neither its server nor its option file was read")
            )
        elif charset and charset != facts.charset:
            yield refusal(
                code,
                title,
                phrase("{charset} and {charset_2}.", charset=facts.charset, charset_2=charset),
                phrase("Set the same character_set_server on both."),
            )
        else:
            yield ok(
                code,
                title,
                phrase(
                    "{platform}, {charset}; the target's server is down.",
                    platform=facts.platform,
                    charset=facts.charset,
                ),
            )
        return
    there = target.clone
    if (facts.platform, facts.charset, facts.collation) == (there.platform, there.charset, there.collation):
        yield ok(code, title, f"{facts.platform}, {facts.charset}, {facts.collation}")
    else:
        yield refusal(
            code,
            title,
            phrase(
                "{platform}, {charset}, {collation} and {there_platform}, {there_charset}, {there_collation}.",
                platform=facts.platform,
                charset=facts.charset,
                collation=facts.collation,
                there_platform=there.platform,
                there_charset=there.charset,
                there_collation=there.collation,
            ),
            ANOTHER_WAY,
        )


def the_way_is_encrypted(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, facts = "clone.tls", phrase("Encryption of the transfer"), clone_facts(inputs)
    if facts is None:
        return
    if facts.tls:
        yield ok(code, title, phrase("TLS is required."))
    else:
        advice = phrase("Configure a certificate on the source, or choose another method: other methods use SSH.")
        yield warning(code, title, phrase("The source has no TLS."), advice)


def statements_are_not_held_up(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, server = "clone.ddl", phrase("Schema changes during the clone"), inputs.source.server
    facts = clone_facts(inputs)
    if server is None or facts is None:
        return
    if parse_version(server.version) < FIRST_WITHOUT_DDL_LOCK or facts.blocks_ddl:
        advice = phrase("A replicated DDL statement delays the source until the clone ends.")
        yield warning(code, title, phrase("Every DDL statement on the source waits for the clone."), advice)
    else:
        yield ok(code, title, phrase("DDL and clone do not block each other."))


def the_source_uses_gtid(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, server = "clone.gtid", phrase("GTID position of the copy"), inputs.source.server
    if server is None or server.flavor != "mysql":
        return
    if server.gtid_enabled:
        yield ok(code, title, phrase("gtid_mode is ON."))
    else:
        yield refusal(code, title, phrase("gtid_mode is not ON on the source."), ANOTHER_WAY)


def programs_are_there(inputs: PlanInputs) -> Iterator[Finding]:
    """Require the server program on the target: it makes the copy, and no backup tool is needed."""
    flavor, host = inputs.source.flavor, inputs.target.facts.host if inputs.target.facts else None
    if flavor is None or host is None or flavor.name != "mysql":
        return
    missing = [name for name in ("bash", "flock", "setsid", "setpriv") if name not in host.tools]
    wanted = (flavor.server_programs, flavor.client_programs)
    missing += [" or ".join(names) for names in wanted if find_tool(inputs.target, names) is None]
    source = inputs.source.facts.host if inputs.source.facts else None
    if source and find_tool(inputs.source, flavor.client_programs) is None:
        missing.append(f"{' or '.join(flavor.client_programs)} on {inputs.source.host}")
    code, title = "clone.programs", phrase("Programs for clone on the hosts")
    if missing:
        yield refusal(
            code, title, phrase("Missing: {missing}.", missing=", ".join(missing)), phrase("Install them on that host.")
        )
    else:
        yield ok(code, title, phrase("All programs found."))


CHECKS = (
    both_can_clone,
    the_plugin_can_be_had,
    the_donor_takes_the_account,
    tables_are_cloned,
    packets_are_large_enough,
    platforms_agree,
    the_source_uses_gtid,
    programs_are_there,
    the_way_is_encrypted,
    statements_are_not_held_up,
)
