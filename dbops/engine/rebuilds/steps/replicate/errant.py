"""Find transactions that only the copy has: a replica with its own transactions breaks later without a visible cause."""

from collections.abc import Sequence
from contextlib import closing, suppress

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors import gtid
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.plan import PlannedInstance
from dbops.engine.rebuilds.steps.replicate.replication import read_position
from dbops.engine.rebuilds.steps.run import Run

#: How many transactions an error names.
SHOWN = 5


def must_have_nothing_errant(run: Run, target: Database, *, state: str, is_copy: bool = True) -> None:
    """Compare the whole history of the copy with the primary's.

    The copy is read first: the primary can only have more afterwards.

    Args:
        run: before repointing.
        target: the connection to the copy.
        state: the current state, for the error.
        is_copy: its binary log begins with its start. Else it is an older server, such as an intermediate replica.

    Raises:
        RemoteFailure: the primary lacks transactions (``repoint.errant``), or as ``Database.query``.
    """
    have, own_list = read_position(target, run.flavor)[0], _list(target, run)
    source_list = "" if run.plan.archive else _source_list(run)
    with closing(run.primary.connect(10.0)) as primary:
        executed, logged = read_position(primary, run.flavor)
        errant = run.flavor.gtid_missing(have, logged or executed)
        if run.flavor.name == "mariadb":
            errant = _with_lists(
                errant, own_list if is_copy else "", [source_list, "" if is_copy else own_list], primary, run
            )
    if not errant:
        return
    entries = errant.split(",")
    shown = ", ".join(f"{entry} ({_writer(entry, run, target)})" for entry in entries[:SHOWN])
    more = phrase(" and {count} more", count=len(entries) - SHOWN) if len(entries) > SHOWN else ""
    raise RemoteFailure(
        "repoint.errant",
        phrase("Comparing {target} with the primary", target=run.plan.target.name),
        cause=phrase("the primary does not have {gtids}{more}", gtids=shown, more=more),
        state=state,
        next_step=_next_step(entries, run, target),
    )


def _with_lists(errant: str, of_copy: str, older: Sequence[str], primary: Database, run: Run) -> str:
    """Add what the lists by server show: a position has only the last number of each domain, which hides lower ones.

    The copy's binary log begins with its start, so each of its entries must be in the primary's. The lists of older servers, such
    as the source, can begin before the primary's, which begins again when the primary is rebuilt: of them only entries count that the
    primary's logs would contain.
    """
    known = gtid.parse_position(_list(primary, run)), gtid.parse_position(_replicated(primary))
    found = gtid.missing_from_lists(gtid.parse_position(of_copy), *known)
    of_older = gtid.missing_from_lists(gtid.union(*map(gtid.parse_position, older)), *known)
    if of_older:
        of_older = gtid.after(of_older, gtid.parse_position(_oldest(primary, run)))
    return gtid.format_position(gtid.union(gtid.parse_position(errant), found, of_older))


def _list(database: Database, run: Run) -> str:
    """Return MariaDB's last number of each server of each domain in the binary log. MySQL's sets are whole without it."""
    return _global(database, "gtid_binlog_state") if run.flavor.name == "mariadb" else ""


def _replicated(database: Database) -> str:
    return _global(database, "gtid_slave_pos")


def _source_list(run: Run) -> str:
    """Return the source's list, ``""`` if it does not answer: its later transactions arrive on the copy anyway."""
    with suppress(Unreachable), closing(run.source.connect(10.0)) as source:
        return _list(source, run)
    return ""


def _oldest(primary: Database, run: Run) -> str:
    logs = primary.query("SHOW BINARY LOGS")
    rows = primary.query(run.flavor.oldest_gtid(str(logs[0]["Log_name"]))) if logs else []
    return str(rows[0]["gtid"] or "") if rows else ""


def _global(database: Database, name: str) -> str:
    return str(database.query(f"SELECT @@GLOBAL.{name} AS value")[0]["value"] or "")


def _writer(entry: str, run: Run, target: Database) -> str:
    """Return who wrote a transaction, from the server id or uuid in it."""
    written_by = _writers(entry, run, target)
    if written_by is not None:
        return f"written on {written_by.name}"
    return "written on a server of another uuid" if ":" in entry else f"written on server {entry.split('-')[1]}"


def _writers(entry: str, run: Run, target: Database) -> PlannedInstance | None:
    plan = run.plan
    if ":" in entry:
        uuid = entry.split(":", 1)[0].lower()
        if uuid == _global(target, "server_uuid").lower():
            return plan.target
        return plan.source if uuid == plan.source.server_uuid.lower() else None
    server = int(entry.split("-")[1])
    if server == plan.target.configured_server_id:
        return plan.target
    return next((party for party in (plan.source, plan.primary) if party.server_id == server), None)


def _next_step(entries: list[str], run: Run, target: Database) -> str:
    """Return what to do when the copy itself wrote them; the catalogue's advice blames the source's data."""
    if {_writers(entry, run, target) for entry in entries} != {run.plan.target}:
        return ""
    return phrase(
        "The copy wrote these after its start: look for an event, an init_file or a client that writes to "
        "it. Stop it, then rebuild again. The source needs no rebuild."
    )
