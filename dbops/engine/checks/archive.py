"""Can a finished physical backup become the new data? The server that made it is not asked: it may be down."""

from collections.abc import Iterator

from dbops.engine.checks.findings import duration, gib, ok, refusal, unknown, warning
from dbops.engine.checks.pair import find_tool
from dbops.engine.errors import DbopsError
from dbops.engine.flavors import parse_version
from dbops.engine.flavors.loading import install_programs
from dbops.engine.plan import Finding
from dbops.engine.situation import Situation

#: Older ones are told of: all that was written since is applied from binary logs.
OLD_SECONDS = 3 * 24 * 3600


def there_is_one(situation: Situation) -> Iterator[Finding]:
    code, title, archive = "archive.file", "There is a complete backup to read", situation.archive
    name = situation.source.name
    if archive is None:
        yield refusal(
            code,
            title,
            f"dbops knows of none of {name} of this kind that it made itself and that is still kept.",
            "Let a schedule make one, or choose another method.",
        )
        return
    age = (situation.now - archive.taken_at).total_seconds()
    seen = f"{archive.path} of backup run {archive.run}, {gib(archive.bytes)}, {duration(max(age, 0))} old."
    if age > OLD_SECONDS:
        yield warning(code, title, seen, "All that was written since is applied from binary logs: that takes its time.")
    else:
        yield ok(code, title, seen)


def its_host_answers(situation: Situation) -> Iterator[Finding]:
    code, title, source = "archive.host", "The host of the backup answers", situation.source
    if source.facts is None:
        return
    if problem := source.facts.host_problem:
        yield refusal(code, title, f"{problem.text} ({problem.code})", "Mend the SSH access to that host.")
    else:
        yield ok(code, title, f"{source.host} answers at {source.ssh_address}.")


def the_target_can_open_it(situation: Situation) -> Iterator[Finding]:
    code, title = "archive.version", "The target's server can open the backup"
    archive, flavor, target = situation.archive, situation.flavor, situation.target
    if archive is None or flavor is None:
        return
    program = find_tool(target, flavor.server_programs)
    version = target.server.version if target.server else (program.version if program else None)
    if target.server and target.server.flavor != archive.flavor:
        yield refusal(
            code, title, f"{archive.flavor} and {target.server.flavor}.", "Choose a backup of the same flavor."
        )
    elif version is None:
        yield unknown(code, title, "the version of the target's server")
    elif problem := flavor.clone_problem(parse_version(version)):
        yield refusal(code, title, problem, f"Install {archive.flavor} {archive.version} on the target.")
    else:
        yield ok(code, title, f"{archive.flavor} {archive.version} -> {version}")


def programs_are_there(situation: Situation) -> Iterator[Finding]:
    """The backup tool is needed on the target alone: it prepares there what it wrote on the source."""
    flavor = situation.flavor
    host = situation.target.facts.host if situation.target.facts else None
    if flavor is None or host is None:
        return
    tool = find_tool(situation.target, flavor.backup_programs)
    code, title = "archive.tool", "The target's host has the backup tool for this backup"
    if tool is None:
        seen = f"None of {', '.join(flavor.backup_programs)} on {situation.target.host}."
        yield refusal(code, title, seen, "Install the tool of the server's version.")
    elif problem := flavor.tool_problem(tool.version):
        yield refusal(code, title, problem, "Install the tool that fits the server.")
    else:
        yield ok(code, title, f"{tool.path} {tool.version}")
    needed = ("bash", "flock", "setsid", "setpriv", "ssh", "ssh-keygen", "zstd")
    missing = [name for name in needed if name not in host.tools]
    missing += [
        " or ".join(names)
        for names in (flavor.unpack_programs, flavor.client_programs)
        if find_tool(situation.target, names) is None
    ]
    code, title = "archive.programs", "The target's host has the programs that unpack it"
    if missing:
        yield refusal(code, title, f"Missing: {', '.join(missing)}.", "Install them.")
    else:
        yield ok(code, title, "All are there.")


def the_primary_uses_gtid(situation: Situation) -> Iterator[Finding]:
    """The copy is attached to the primary at once; without GTID nobody knows where it stands in the primary's own logs."""
    code, title = "archive.gtid", "The copy can be attached to the primary by GTID"
    archive, primary = situation.archive, situation.primary.server if situation.primary else None
    if archive is None or primary is None:
        return
    if not primary.gtid_enabled or not archive.gtid:
        seen = "The primary does not use GTID." if not primary.gtid_enabled else "The backup has no GTID position."
        yield refusal(code, title, seen, "Stream from the running source instead.")
    else:
        yield ok(code, title, f"From {archive.gtid} on.")


def binlogs_reach_back(situation: Situation) -> Iterator[Finding]:
    """Error 1236 after all the work: what the primary has removed nobody can apply any more."""
    code, title = "archive.reach", "The primary still has all binary logs since the backup"
    archive, flavor = situation.archive, situation.flavor
    primary = situation.primary.server if situation.primary else None
    if archive is None or flavor is None or primary is None or not archive.gtid:
        return
    if primary.gtid_purged is None:
        yield unknown(code, title, "the primary's oldest binary log")
        return
    try:
        gone = flavor.gtid_missing(primary.gtid_purged, archive.gtid)
    except DbopsError as error:
        yield refusal(code, title, f"Its position cannot be compared: {error.found}", "Choose another method.")
        return
    if gone:
        advice = "Stream from the running source instead, or take a new backup."
        yield refusal(code, title, f"The primary has removed {gone}, which the backup does not have.", advice)
    else:
        yield ok(code, title, "Nothing that the backup lacks was removed there.")


def programs_that_load_are_there(situation: Situation) -> Iterator[Finding]:
    """A dump needs the server's own programs, which make an empty data directory and read it in."""
    flavor = situation.flavor
    host = situation.target.facts.host if situation.target.facts else None
    if flavor is None or host is None:
        return
    missing = [
        name for name in ("bash", "flock", "setsid", "setpriv", "ssh", "ssh-keygen", "gzip") if name not in host.tools
    ]
    missing += [
        " or ".join(names)
        for names in (flavor.server_programs, flavor.client_programs, install_programs(flavor))
        if find_tool(situation.target, names) is None
    ]
    code, title = "dump.programs", "The target's host has the programs that load it"
    if missing:
        yield refusal(code, title, f"Missing: {', '.join(missing)}.", "Install them.")
    else:
        yield ok(code, title, "All are there.")


#: Of a physical backup.
CHECKS = (
    there_is_one,
    its_host_answers,
    the_target_can_open_it,
    programs_are_there,
    the_primary_uses_gtid,
    binlogs_reach_back,
)
#: Of a dump: statements, that a server of the same series reads.
OF_A_DUMP = (
    there_is_one,
    its_host_answers,
    the_target_can_open_it,
    programs_that_load_are_there,
    the_primary_uses_gtid,
    binlogs_reach_back,
)
