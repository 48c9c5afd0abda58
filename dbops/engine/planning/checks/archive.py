"""Check a finished backup. The server that made the backup may be down."""

from collections.abc import Iterator
from datetime import datetime

from dbops.engine.backups.plan import lacking_for_dump
from dbops.engine.backups.restore_test_ends import RestoreTestEnd
from dbops.engine.errors import DbopsError
from dbops.engine.flavors import parse_version
from dbops.engine.flavors.dump_load import install_programs
from dbops.engine.flavors.dumps import dump_problem, dump_program
from dbops.engine.flavors.versions import PRODUCTS, product_name
from dbops.engine.phrases import joined, phrase
from dbops.engine.planning.checks.findings import duration, gib, ok, refusal, unknown, warning
from dbops.engine.planning.checks.pair import find_tool
from dbops.engine.planning.checks.source import backup_has_all_engines, source_rows_are_equal
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.plan import Finding

#: An older backup causes a warning: all later writes have to be applied from binary logs.
OLD_SECONDS = 3 * 24 * 3600
#: Maximum number of characters shown of a restore test's result.
FOUND_SHOWN = 300


def there_is_one(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, archive = "archive.file", phrase("Complete backup"), inputs.archive
    name = inputs.source.name
    if archive is None:
        yield refusal(
            code,
            title,
            phrase("dbops has no complete backup of {name} for this method.", name=name),
            phrase("Run a backup by its schedule, or choose another method."),
        )
        return
    age = (inputs.now - archive.taken_at).total_seconds()
    seen = phrase(
        "{path} of backup run {run}, {bytes}, {age} old.",
        path=archive.path,
        run=archive.run,
        bytes=gib(archive.bytes),
        age=duration(max(age, 0)),
    )
    if age > OLD_SECONDS:
        yield warning(code, title, seen, phrase("Catch-up from binary logs takes longer for an old backup."))
    else:
        yield ok(code, title, seen)


def no_restore_test_failed(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a backup whose restore test failed."""
    code, title = "archive.restore_test", phrase("Restore tests of the backup")
    archive = inputs.archive
    if archive is None:
        return
    restore_test, run = inputs.restore_tests.get(archive.run), archive.run
    if restore_test is None:
        yield ok(code, title, phrase("Backup run {run} has no restore test yet.", run=run))
    elif restore_test.is_good:
        yield ok(
            code,
            title,
            phrase("Backup run {run} passed a restore test on {moment}.", run=run, moment=_moment(restore_test.at)),
        )
    elif restore_test.is_bad:
        others = sum(one.instance == archive.instance and one.method is archive.method for one in inputs.archives) - 1
        advice = phrase(
            "Make a new backup of {instance}, or choose another method. If you fixed the cause, run the restore "
            "test of backup run {run} again.",
            instance=archive.instance,
            run=run,
        )
        found = _found(restore_test)
        seen = (
            phrase(
                "Backup run {run}: {found} The other backups ({others}) failed too.",
                run=run,
                found=found,
                others=others,
            )
            if others
            else phrase("Backup run {run}: {found}", run=run, found=found)
        )
        yield refusal(code, title, seen, advice)
    else:
        advice = phrase(
            "Check that restore test first: the copy may not start either. Other methods do not read the backup."
        )
        yield warning(
            code, title, phrase("Backup run {run} is in doubt: {found}", run=run, found=_found(restore_test)), advice
        )


def no_newer_one_was_passed_over(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn if a newer backup exists than the one that is read."""
    archive, newer = inputs.archive, inputs.newer_archives
    restore_test = inputs.restore_tests.get(newer[0].run) if newer else None
    if archive is None or restore_test is None:
        return
    seen = phrase(
        "Backup run {run} of {moment} is newer than backup run {archive_run} but skipped: {found}",
        run=newer[0].run,
        moment=_moment(newer[0].taken_at),
        archive_run=archive.run,
        found=_found(restore_test),
    )
    if len(newer) > 1:
        more = phrase("{number} more backups in between were skipped.", number=len(newer) - 1)
        seen = joined((seen, more))
    advice = phrase(
        "See the page of backup run {run}. A new restorable backup shortens the catch-up.", run=newer[0].run
    )
    yield warning("archive.passed_over", phrase("Newest backup"), seen, advice)


def _found(restore_test: RestoreTestEnd) -> str:
    """Return the result of a failed restore test as text."""
    said = restore_test.found[:FOUND_SHOWN].strip().rstrip(".") or phrase("failed")
    return phrase(
        "restore test of {moment}: {said} ({code}).", moment=_moment(restore_test.at), said=said, code=restore_test.code
    )


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def its_host_answers(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, source = "archive.host", phrase("Host of the backup"), inputs.source
    if source.facts is None:
        return
    if problem := source.facts.host_problem:
        yield refusal(code, title, f"{problem.text} ({problem.code})", phrase("Fix SSH access to that host."))
    else:
        yield ok(
            code, title, phrase("{host} answers at {ssh_address}.", host=source.host, ssh_address=source.ssh_address)
        )


def the_target_can_open_it(inputs: PlanInputs) -> Iterator[Finding]:
    code, title = "archive.version", phrase("Version of the backup")
    archive, flavor, target = inputs.archive, inputs.flavor, inputs.target
    if archive is None or flavor is None:
        return
    program = find_tool(target, flavor.server_programs)
    version = target.server.version if target.server else (program.version if program else None)
    if target.server and target.server.flavor != archive.flavor:
        yield refusal(
            code,
            title,
            phrase(
                "{product_name} and {server_flavor}.",
                product_name=product_name(archive.flavor),
                server_flavor=product_name(target.server.flavor),
            ),
            phrase("Choose a backup of the same flavor."),
        )
    elif version is None:
        yield unknown(code, title, phrase("the version of the target's server"))
    elif problem := flavor.clone_problem(parse_version(version)):
        yield refusal(
            code,
            title,
            problem,
            phrase(
                "Install {product_name} {version} on the target.",
                product_name=product_name(archive.flavor),
                version=archive.version,
            ),
        )
    else:
        yield ok(code, title, f"{product_name(archive.flavor)} {archive.version} -> {version}")


def programs_are_there(inputs: PlanInputs) -> Iterator[Finding]:
    """Require the backup tool on the target only: it prepares there what it wrote on the source."""
    flavor = inputs.flavor
    host = inputs.target.facts.host if inputs.target.facts else None
    if flavor is None or host is None:
        return
    tool = find_tool(inputs.target, flavor.backup_programs)
    code, title = "archive.tool", phrase("Backup tool on the target's host")
    if tool is None:
        seen = phrase(
            "Missing: {backup_programs} on {host}.",
            backup_programs=" or ".join(flavor.backup_programs),
            host=inputs.target.host,
        )
        yield refusal(code, title, seen, phrase("Install the tool for the server's version."))
    elif tool.version is None:
        yield refusal(
            code,
            title,
            tool.silence,
            phrase("Run this program on {host}, and fix what it prints.", host=inputs.target.host),
        )
    elif problem := flavor.tool_problem(tool.version):
        yield refusal(code, title, problem, phrase("Install the tool that fits the server."))
    else:
        yield ok(code, title, f"{tool.path} {tool.version}")
    needed = ("bash", "flock", "setsid", "setpriv", "ssh", "ssh-keygen", "zstd")
    missing = [name for name in needed if name not in host.tools]
    missing += [
        " or ".join(names)
        for names in (flavor.unpack_programs, flavor.client_programs)
        if find_tool(inputs.target, names) is None
    ]
    code, title = "archive.programs", phrase("Programs to unpack on the target's host")
    if missing:
        yield refusal(
            code, title, phrase("Missing: {missing}.", missing=", ".join(missing)), phrase("Install them on that host.")
        )
    else:
        yield ok(code, title, phrase("All programs found."))


def the_primary_uses_gtid(inputs: PlanInputs) -> Iterator[Finding]:
    """Require GTID: the copy attaches to the primary at once, and its position in the primary's logs is unknown without GTID."""
    code, title = "archive.gtid", phrase("GTID of backup and primary")
    archive, primary = inputs.archive, inputs.primary.server if inputs.primary else None
    if archive is None or primary is None:
        return
    if not primary.gtid_enabled or not archive.gtid:
        seen = (
            phrase("The primary does not use GTID.")
            if not primary.gtid_enabled
            else phrase("The backup has no GTID position.")
        )
        yield refusal(code, title, seen, phrase("Stream from the running source instead."))
    else:
        yield ok(code, title, phrase("From {gtid}.", gtid=archive.gtid))


def binlogs_reach_back(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse if the primary has purged binary logs that the copy needs: error 1236 would appear after all the work."""
    code, title = "archive.reach", phrase("Binary logs of the primary since the backup")
    archive, flavor = inputs.archive, inputs.flavor
    primary = inputs.primary.server if inputs.primary else None
    if archive is None or flavor is None or primary is None or not archive.gtid:
        return
    if primary.gtid_purged is None:
        yield unknown(code, title, phrase("the primary's oldest binary log"))
        return
    try:
        gone = flavor.gtid_missing(primary.gtid_purged, archive.gtid)
    except DbopsError as error:
        yield refusal(
            code,
            title,
            phrase("Its position cannot be compared: {cause}", cause=error.cause),
            phrase("Choose another method."),
        )
        return
    if gone:
        advice = phrase("Stream from the running source instead, or take a new backup.")
        yield refusal(
            code, title, phrase("The primary has removed {gone}, which the backup does not have.", gone=gone), advice
        )
    else:
        yield ok(code, title, phrase("The primary has all transactions since the backup."))


def programs_that_load_are_there(inputs: PlanInputs) -> Iterator[Finding]:
    """Require the server's own programs: they create an empty data directory and load the dump."""
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
    code, title = "dump.programs", phrase("Programs to load on the target's host")
    if missing:
        yield refusal(
            code, title, phrase("Missing: {missing}.", missing=", ".join(missing)), phrase("Install them on that host.")
        )
    else:
        yield ok(code, title, phrase("All programs found."))


def new_dumps_can_be_restored(inputs: PlanInputs) -> Iterator[Finding]:
    """Check the program that dumps the source: that of the other product has the same name."""
    code, title, source = "dump.program", phrase("Dump program on the source's host"), inputs.source
    flavor, host = inputs.flavor, source.facts.host if source.facts else None
    program = dump_program(flavor, host.tools) if flavor and host else None
    if flavor is None or program is None:
        return
    problem = dump_problem(flavor, program)
    advice = phrase(
        "Install the dump program of {products} on {host}, first on its PATH. Or choose another method.",
        products=PRODUCTS[flavor.name],
        host=source.host,
    )
    if problem and inputs.archive is None:
        yield refusal(code, title, problem, advice)
    elif problem:
        yield warning(code, title, problem, phrase("The last dump is read. {advice}", advice=advice))
    else:
        yield ok(code, title, f"{program.path} {program.version}")


#: The checks of a physical backup.
CHECKS = (
    there_is_one,
    source_rows_are_equal,
    backup_has_all_engines,
    no_restore_test_failed,
    no_newer_one_was_passed_over,
    its_host_answers,
    the_target_can_open_it,
    programs_are_there,
    the_primary_uses_gtid,
    binlogs_reach_back,
)


def dumps_have_everything(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn of an account that makes incomplete dumps: some objects are left out without an error."""
    code, title, facts = "dump.account", phrase("Privileges of the dump account"), inputs.source.facts
    if facts is None or facts.server is None or facts.local_privileges is None:
        return
    if lacks := lacking_for_dump(facts):
        advice = phrase(
            "Grant them and make a new dump: this one may lack triggers or whole schemas. "
            "`manage.py grants {instance} --for dumps` prints the statements.",
            instance=inputs.source.name,
        )
        yield warning(code, title, f"{lacks[:1].upper()}{lacks[1:]}.", advice)
    else:
        yield ok(code, title, phrase("It has all privileges that a dump needs."))


#: The checks of a dump. A dump is SQL, which any server of the same series can load.
OF_A_DUMP = (
    there_is_one,
    new_dumps_can_be_restored,
    dumps_have_everything,
    source_rows_are_equal,
    its_host_answers,
    the_target_can_open_it,
    programs_that_load_are_there,
    the_primary_uses_gtid,
    binlogs_reach_back,
)
