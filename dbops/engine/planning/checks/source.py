"""Check the source, and whether the copy can replicate afterwards."""

from collections.abc import Iterator

from dbops.engine.facts.instance import ServerFacts
from dbops.engine.flavors import engines
from dbops.engine.flavors.write_lock import when_writes_wait
from dbops.engine.phrases import joined, phrase
from dbops.engine.planning.checks.findings import grants_advice, ok, refusal, unknown, warning
from dbops.engine.planning.checks.target import not_written_by
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.plan import Finding
from dbops.engine.states import Role


def source_answers(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, source = "source.answers", phrase("Answer of the source"), inputs.source
    if source.facts is None:
        return
    problem = source.facts.host_problem or source.facts.server_problem
    if problem:
        yield refusal(code, title, f"{problem.text} ({problem.code})", phrase("Fix it, or choose another source."))
    else:
        yield ok(
            code,
            title,
            phrase("{source} at {address}:{port}", source=source.name, address=source.address, port=source.port),
        )


def source_has_a_fit_role(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, source = "source.role", phrase("Role of the source"), inputs.source
    if source.role == Role.PRIMARY:
        yield refusal(
            code,
            title,
            phrase("{source} is the primary.", source=source.name),
            phrase("The copy would slow down applications. Choose another source."),
        )
    elif source.role != Role.BACKUP:
        yield warning(
            code,
            title,
            phrase("{source} is a {role} that serves reads.", source=source.name, role=source.role),
            phrase("Reads on it slow down during the copy."),
        )
    else:
        yield ok(code, title, source.name)


def source_rows_are_equal(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn of a source whose rows differ: the copy would have the same rows, and equal them in its certificate."""
    code, title = "source.rows_differ", phrase("Differing rows of the source")
    if inputs.source_differs is None:
        yield ok(code, title, phrase("No comparison found any."))
    else:
        yield warning(
            code,
            title,
            phrase(
                "Rows of {source} differ, as found after its rebuild {source_differs}.",
                source=inputs.source.name,
                source_differs=inputs.source_differs,
            ),
            phrase("Rebuild the source first, or choose another one: the copy would have the same rows."),
        )


def source_replicates(inputs: PlanInputs) -> Iterator[Finding]:
    """Check the source's replication: a stopped source gives an old copy, and its lag adds to the time of catching up."""
    code, title, server = "source.replication", phrase("Replication of the source"), inputs.source.server
    if server is None:
        return
    if not server.replication:
        yield refusal(
            code, title, phrase("The source does not replicate."), phrase("Choose a source that follows the primary.")
        )
        return
    if len(server.replication) > 1:
        names = ", ".join(repr(link.channel) for link in server.replication)
        yield refusal(
            code,
            title,
            phrase("The source has several channels: {names}.", names=names),
            phrase("Multi-source replicas are not supported."),
        )
        return
    link = server.replication[0]
    if not link.is_running:
        error = link.last_io_error or link.last_sql_error or f"IO {link.io_running}, SQL {link.sql_running}"
        yield refusal(
            code,
            title,
            phrase("Replication is not running: {error}", error=error),
            phrase("Fix it, or choose another source."),
        )
    elif link.lag_seconds is None or link.lag_seconds > inputs.max_lag_seconds:
        seen = "unknown" if link.lag_seconds is None else f"{link.lag_seconds:.0f} s"
        yield refusal(
            code,
            title,
            phrase(
                "Lag {seen} (limit {max_lag_seconds} s).", seen=seen, max_lag_seconds=f"{inputs.max_lag_seconds:.0f}"
            ),
            phrase("Wait until the source has caught up, or choose another source."),
        )
    else:
        yield ok(
            code,
            title,
            phrase(
                "From {source_host}:{source_port}, lag {lag_seconds} s.",
                source_host=link.source_host,
                source_port=link.source_port,
                lag_seconds=f"{link.lag_seconds:.0f}",
            ),
        )


def source_can_be_replicated_from(inputs: PlanInputs) -> Iterator[Finding]:
    code, title, server = "source.binlog", phrase("Binary log of the source"), inputs.source.server
    if server is None:
        return
    updates = _own_name(inputs, "log_replica_updates")
    if skips_source(server):
        seen = phrase(
            "{updates} is off: the copy attaches to the primary at once, at its own GTID position.", updates=updates
        )
        yield ok(code, title, seen)
    elif not server.log_bin or not server.log_replica_updates:
        off = "log_bin" if not server.log_bin else updates
        yield refusal(
            code,
            title,
            phrase("{off} is off.", off=off),
            phrase("Turn {off} on: the copy catches up from the source's binary logs.", off=off),
        )
    else:
        yield ok(code, title, phrase("log_bin and {updates} are on.", updates=updates))


def skips_source(server: ServerFacts) -> bool:
    """Return whether a copy has to attach to the primary, and can: it has its position of the primary by GTID."""
    return server.log_bin and not server.log_replica_updates and server.gtid_enabled


def _own_name(inputs: PlanInputs, name: str) -> str:
    """Return the source's own name of a variable: an unknown name would keep a server from starting."""
    flavor = inputs.source.flavor
    return flavor.variable_name(name) if flavor else name


def positions_are_known(inputs: PlanInputs) -> Iterator[Finding]:
    code, title = "source.gtid", phrase("GTID of the source")
    source, primary = inputs.source.server, inputs.primary.server if inputs.primary else None
    if source is None or primary is None:
        return
    if not source.gtid_enabled and source.flavor == "mysql" and source.parallel_workers:
        yield refusal(
            code,
            title,
            phrase(
                "No GTID, and {parallel_workers} parallel appliers: the source has no single position.",
                parallel_workers=source.parallel_workers,
            ),
            phrase(
                "Set {own_name} = 0 on the source during the rebuild, or use GTID.",
                own_name=_own_name(inputs, "replica_parallel_workers"),
            ),
        )
    elif source.gtid_enabled:
        yield ok(code, title, phrase("The copy is repointed to the primary by GTID."))
    else:
        yield warning(
            code,
            title,
            phrase("The source replicates by file and position."),
            phrase("Repointing stops the source's applier for some seconds, so that both are at the same position."),
        )


def source_holds_nothing_of_its_own(inputs: PlanInputs) -> Iterator[Finding]:
    """Check for errant transactions on the source: the copy contains them, and they block the repointing after all the work."""
    code, title = "source.errant", phrase("Errant transactions of the source")
    source, primary = inputs.source.server, inputs.primary.server if inputs.primary else None
    flavor = inputs.source.flavor
    if not (source and primary and flavor and source.gtid_enabled) or source.flavor != primary.flavor:
        return
    missing = flavor.gtid_missing(
        source.gtid_binlog or source.gtid_executed, primary.gtid_binlog or primary.gtid_executed
    )
    if errant := not_written_by(primary, missing, inputs.members):
        yield refusal(
            code,
            title,
            phrase("The primary does not have {errant}.", errant=errant),
            phrase("Find the cause, and make source and primary consistent."),
        )
    else:
        yield ok(code, title, phrase("The primary has all transactions of the source."))


def binlogs_are_kept(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse if the primary may purge logs before the copy attaches: error 1236 after a long copy is the most frequent failure."""
    for code, member in (("source.retention", inputs.source), ("primary.retention", inputs.primary)):
        server = member.server if member else None
        seconds = inputs.cautious_copy_seconds
        if member is None or server is None:
            continue
        title = phrase("Binary log retention of {member}", member=member.name)
        if server.binlog_expire_seconds == 0:
            yield ok(code, title, phrase("No automatic removal."))
        elif seconds is None:
            yield unknown(code, title, phrase("how long the copy takes"))
        elif server.binlog_expire_seconds < 2 * seconds + 600:
            yield refusal(
                code,
                title,
                phrase(
                    "Kept {binlog_expire_seconds} s; the copy may take {seconds} s.",
                    binlog_expire_seconds=server.binlog_expire_seconds,
                    seconds=f"{seconds:.0f}",
                ),
                phrase("Raise binlog_expire_logs_seconds (expire_logs_days) during the rebuild."),
            )
        else:
            yield ok(
                code,
                title,
                phrase(
                    "{binlog_expire_seconds} h; the copy may take {seconds} min.",
                    binlog_expire_seconds=f"{server.binlog_expire_seconds / 3600:.0f}",
                    seconds=f"{seconds / 60:.0f}",
                ),
            )


def backup_account_may_finish(inputs: PlanInputs) -> Iterator[Finding]:
    """Check the privileges of the late statements now: a missing one would appear only after the whole copy."""
    code, title, facts = "source.account", phrase("Privileges of the backup account"), inputs.source.facts
    if facts is None or facts.server is None:
        return
    if facts.host is None:
        yield unknown(code, title, phrase("{host} was not read", host=inputs.source.host))
        return
    if not facts.backup_account:
        yield refusal(
            code, title, phrase("The account was not tested."), phrase("Configure a backup account for the cluster.")
        )
    failed = [item for item in facts.backup_account if item.error]
    for item in failed:
        yield refusal(
            code,
            title,
            f"{item.statement}: {item.error}",
            grants_advice(inputs.source.name),
        )
    if facts.backup_account and not failed:
        yield ok(code, title, "; ".join(item.statement for item in facts.backup_account))


def engines_are_copied_online(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse tables of engines that no backup tool copies: the copy would lack their rows, or not start."""
    code, title, server = "source.engines", phrase("Table locks during the copy"), inputs.source.server
    if server is None:
        return
    if lost := engines.not_copied(server.foreign_engines, flavor=server.flavor):
        yield _not_copied(code, title, lost)
    elif locked := engines.locked(server.foreign_engines):
        seen = phrase("Not InnoDB: {locked}.", locked=engines.as_text(locked))
        yield warning(code, title, seen, phrase("Writes to these tables wait while they are copied."))
    else:
        text = engines.as_text(server.foreign_engines)
        yield ok(code, title, phrase("None: {engines}.", engines=text) if text else phrase("InnoDB only."))


def backup_has_all_engines(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a physical backup of a server that has tables of other engines now: the backup lacks them."""
    code, title, server = "source.engines", phrase("Tables in the backup"), inputs.source.server
    if server is None:
        return
    if lost := engines.not_copied(server.foreign_engines, flavor=server.flavor):
        yield _not_copied(code, title, lost)
    else:
        yield ok(code, title, engines.as_text(server.foreign_engines) or phrase("InnoDB only."))


def _not_copied(code: str, title: str, lost: dict[str, int]) -> Finding:
    return refusal(
        code,
        title,
        phrase("A physical backup lacks tables of these engines: {lost}.", lost=engines.as_text(lost)),
        phrase("Convert them to InnoDB, or choose the method dump: a dump has all tables."),
    )


def writes_wait(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn where writes on the source, and so its applier, wait while files are copied."""
    code, title, server = (
        "source.write_lock",
        phrase("Writes on the source during the copy"),
        inputs.source.server,
    )
    if server is None:
        return
    is_long, seen = when_writes_wait(server)
    if inputs.last_write_lock_seconds is not None:
        waited = f"{inputs.last_write_lock_seconds:.0f}"
        seen = joined((seen, phrase("In its last run they waited {waited} s.", waited=waited)))
    if is_long:
        yield warning(
            code, title, seen, phrase("Replication of the source falls behind by this time. Its clients wait, too.")
        )
    else:
        yield ok(code, title, seen)


def nothing_lies_outside(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse files outside the data directory: the stream flattens them into one directory, and the server would not start."""
    code, title, server = "source.external_paths", phrase("External paths of the source"), inputs.source.server
    if server is None:
        return
    if server.external_paths:
        yield refusal(
            code,
            title,
            phrase("Outside: {external_paths}.", external_paths=", ".join(server.external_paths[:5])),
            phrase("Instances with separate data, undo or log directories are not supported."),
        )
    else:
        yield ok(code, title, phrase("All data is in {datadir}.", datadir=server.datadir))


CHECKS = (
    source_answers,
    source_has_a_fit_role,
    source_rows_are_equal,
    source_replicates,
    source_can_be_replicated_from,
    positions_are_known,
    source_holds_nothing_of_its_own,
    binlogs_are_kept,
    backup_account_may_finish,
    engines_are_copied_online,
    writes_wait,
    nothing_lies_outside,
)
