"""Can a finished physical backup become the new data? The server that made it is not asked: it may be down."""

from collections.abc import Iterator
from datetime import datetime

from dbops.engine.backups.restore_test_ends import RestoreTestEnd
from dbops.engine.errors import DbopsError
from dbops.engine.flavors import parse_version
from dbops.engine.flavors.dump_load import install_programs
from dbops.engine.planning.checks.findings import duration, gib, ok, refusal, unknown, warning
from dbops.engine.planning.checks.pair import find_tool
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.plan import Finding

#: Older ones are told of: all that was written since is applied from binary logs.
OLD_SECONDS = 3 * 24 * 3600
#: So much is shown of what a proof found, in characters.
FOUND_SHOWN = 300


def there_is_one(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, archive = "archive.file", "There is a complete backup to read", inputs.archive
    name = inputs.source.name
    if archive is None:
        yield refusal(
            code,
            title,
            f"dbops knows of none of {name} of this kind that it made itself and that is still kept.",
            "Let a schedule make one, or choose another method.",
        )
        return
    age = (inputs.now - archive.taken_at).total_seconds()
    seen = f"{archive.path} of backup run {archive.run}, {gib(archive.bytes)}, {duration(max(age, 0))} old."
    if age > OLD_SECONDS:
        yield warning(code, title, seen, "All that was written since is applied from binary logs: that takes its time.")
    else:
        yield ok(code, title, seen)


def no_restore_test_failed(inputs: PlanInputs) -> Iterator[Finding]:
    """What is read was restored by a proof, or by none yet; one that a proof found bad is refused."""
    code, title = "archive.proof", "No proof says that the backup is bad"
    archive = inputs.archive
    if archive is None:
        return
    restore_test, run = inputs.restore_tests.get(archive.run), f"backup run {archive.run}"
    if restore_test is None:
        yield ok(code, title, f"No proof has told yet whether {run} can be restored.")
    elif restore_test.is_good:
        yield ok(
            code, title, f"{run.capitalize()} was proven on {_moment(restore_test.at)}: restored, and all of it read."
        )
    elif restore_test.is_bad:
        others = sum(one.instance == archive.instance and one.method is archive.method for one in inputs.archives) - 1
        rest = f" The others that are kept ({others}) are known to be bad too." if others else ""
        advice = (
            f"Make a new backup of {archive.instance}, or choose another method. Where the cause was mended, prove "
            f"{run} again: a proof that succeeds counts from then on."
        )
        yield refusal(code, title, f"{run.capitalize()}: {_found(restore_test)}{rest}", advice)
    else:
        advice = "Look at that proof before you go on: the copy may not start either. Another method does not read the backup."
        yield warning(code, title, f"{run.capitalize()} is in doubt: {_found(restore_test)}", advice)


def no_newer_one_was_passed_over(inputs: PlanInputs) -> Iterator[Finding]:
    """Who expects the newest backup is told why an older one is read."""
    archive, newer = inputs.archive, inputs.newer_archives
    restore_test = inputs.restore_tests.get(newer[0].run) if newer else None
    if archive is None or restore_test is None:
        return
    others = f" {len(newer) - 1} more of those between were passed over too." if len(newer) > 1 else ""
    seen = (
        f"Backup run {newer[0].run} of {_moment(newer[0].taken_at)} is newer than backup run {archive.run} and is not read: "
        f"{_found(restore_test)}{others}"
    )
    advice = (
        f"Look at the page of backup run {newer[0].run}. A new backup that can be restored makes the way shorter again."
    )
    yield warning("archive.passed_over", "The newest backup is the one that is read", seen, advice)


def _found(restore_test: RestoreTestEnd) -> str:
    """What a proof that did not succeed found, as a sentence."""
    said = restore_test.found[:FOUND_SHOWN].strip().rstrip(".") or "it did not succeed"
    return f"its proof of {_moment(restore_test.at)} found: {said} ({restore_test.code})."


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def its_host_answers(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, source = "archive.host", "The host of the backup answers", inputs.source
    if source.facts is None:
        return
    if problem := source.facts.host_problem:
        yield refusal(code, title, f"{problem.text} ({problem.code})", "Mend the SSH access to that host.")
    else:
        yield ok(code, title, f"{source.host} answers at {source.ssh_address}.")


def the_target_can_open_it(inputs: PlanInputs) -> Iterator[Finding]:
    code, title = "archive.version", "The target's server can open the backup"
    archive, flavor, target = inputs.archive, inputs.flavor, inputs.target
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


def programs_are_there(inputs: PlanInputs) -> Iterator[Finding]:
    """The backup tool is needed on the target alone: it prepares there what it wrote on the source."""
    flavor = inputs.flavor
    host = inputs.target.facts.host if inputs.target.facts else None
    if flavor is None or host is None:
        return
    tool = find_tool(inputs.target, flavor.backup_programs)
    code, title = "archive.tool", "The target's host has the backup tool for this backup"
    if tool is None:
        seen = f"None of {', '.join(flavor.backup_programs)} on {inputs.target.host}."
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
        if find_tool(inputs.target, names) is None
    ]
    code, title = "archive.programs", "The target's host has the programs that unpack it"
    if missing:
        yield refusal(code, title, f"Missing: {', '.join(missing)}.", "Install them.")
    else:
        yield ok(code, title, "All are there.")


def the_primary_uses_gtid(inputs: PlanInputs) -> Iterator[Finding]:
    """The copy is attached to the primary at once; without GTID nobody knows where it stands in the primary's own logs."""
    code, title = "archive.gtid", "The copy can be attached to the primary by GTID"
    archive, primary = inputs.archive, inputs.primary.server if inputs.primary else None
    if archive is None or primary is None:
        return
    if not primary.gtid_enabled or not archive.gtid:
        seen = "The primary does not use GTID." if not primary.gtid_enabled else "The backup has no GTID position."
        yield refusal(code, title, seen, "Stream from the running source instead.")
    else:
        yield ok(code, title, f"From {archive.gtid} on.")


def binlogs_reach_back(inputs: PlanInputs) -> Iterator[Finding]:
    """Error 1236 after all the work: what the primary has removed nobody can apply any more."""
    code, title = "archive.reach", "The primary still has all binary logs since the backup"
    archive, flavor = inputs.archive, inputs.flavor
    primary = inputs.primary.server if inputs.primary else None
    if archive is None or flavor is None or primary is None or not archive.gtid:
        return
    if primary.gtid_purged is None:
        yield unknown(code, title, "the primary's oldest binary log")
        return
    try:
        gone = flavor.gtid_missing(primary.gtid_purged, archive.gtid)
    except DbopsError as error:
        yield refusal(code, title, f"Its position cannot be compared: {error.cause}", "Choose another method.")
        return
    if gone:
        advice = "Stream from the running source instead, or take a new backup."
        yield refusal(code, title, f"The primary has removed {gone}, which the backup does not have.", advice)
    else:
        yield ok(code, title, "Nothing that the backup lacks was removed there.")


def programs_that_load_are_there(inputs: PlanInputs) -> Iterator[Finding]:
    """A dump needs the server's own programs, which make an empty data directory and read it in."""
    flavor = inputs.flavor
    host = inputs.target.facts.host if inputs.target.facts else None
    if flavor is None or host is None:
        return
    missing = [
        name for name in ("bash", "flock", "setsid", "setpriv", "ssh", "ssh-keygen", "gzip") if name not in host.tools
    ]
    missing += [
        " or ".join(names)
        for names in (flavor.server_programs, flavor.client_programs, install_programs(flavor))
        if find_tool(inputs.target, names) is None
    ]
    code, title = "dump.programs", "The target's host has the programs that load it"
    if missing:
        yield refusal(code, title, f"Missing: {', '.join(missing)}.", "Install them.")
    else:
        yield ok(code, title, "All are there.")


#: Of a physical backup.
CHECKS = (
    there_is_one,
    no_restore_test_failed,
    no_newer_one_was_passed_over,
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
