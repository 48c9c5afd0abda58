"""The server part of a probe: read facts with a few cheap statements."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from dbops.drivers.probe_kind import read_kind
from dbops.drivers.probe_stored import read_stored
from dbops.engine.backups.tools import LOCAL_NAMES, tool_of_statement
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.facts.backups import BackupConnection
from dbops.engine.facts.instance import (
    STORED,
    Attached,
    Client,
    CloneFacts,
    InstanceFacts,
    ReplicationFacts,
    RunTimeSetting,
    ServerFacts,
)
from dbops.engine.facts.stored_data import StoredData
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.base import Flavor
from dbops.engine.flavors.channels import read_channels
from dbops.engine.flavors.gtid import without_space
from dbops.engine.flavors.privileges import SHOW_GRANTS, missing_for_rebuild
from dbops.engine.flavors.run_time_settings import run_time_settings_from, show_run_time_settings
from dbops.engine.flavors.server_kind import KIND_VARIABLES
from dbops.engine.flavors.variables import number_of, text_of, truth_of
from dbops.engine.ports import Database
from dbops.engine.rebuilds.clone import FIRST_VERSION

#: minimum interval between two readings of the log sequence number for a meaningful rate
RATE_SECONDS = 1.0
TEMP_TABLES = ("Replica_open_temp_tables", "Slave_open_temp_tables")
SYSTEM_USERS = {"", "system user", "event_scheduler", "unauthenticated user"}
SYSTEM_SCHEMAS = "('mysql', 'sys', 'performance_schema', 'information_schema')"
STATEMENT_CHARACTERS = 200
LSN = re.compile(r"^Log sequence number:?\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServerReading:
    """The facts and the server's flavor, ``None`` for a TiDB node."""

    facts: ServerFacts
    flavor: Flavor | None


def read_server(
    database: Database,
    *,
    our_users: Iterable[str],
    measure: bool,
    now: datetime,
    previous: InstanceFacts | None,
    addresses: Iterable[str] = (),
) -> ServerReading:
    """Read the server's facts.

    Args:
        addresses: of the server's host, in addition to those that the server reports.
        our_users: dbops's accounts; their connections do not count as clients.
        measure: also read values that take long with many tables; otherwise they come from ``previous``.

    Raises:
        Unreachable, RemoteFailure: see ``Database.query``. Unreadable values do not count as absent.
    """
    first = database.query("SELECT VERSION() AS version, @@version_comment AS comment")[0]
    flavor = flavor_for(str(first["version"]), str(first["comment"]))
    variables = _named(database, "VARIABLES", (*flavor.read_variables(), *KIND_VARIABLES))
    status = _named(database, "STATUS", flavor.read_status())
    replication = _replication(database, flavor, status)
    fields: dict[str, Any] = {"replication": replication, **flavor.server_facts_from(variables, status, replication)}
    fields["kind"] = read_kind(database, variables, flavor=flavor.name)
    fields["redo_lsn"] = fields.get("redo_lsn") or _lsn_from_status(database)
    fields["redo_bytes_per_second"] = redo_rate(fields["redo_lsn"], now, previous)
    fields["replicas"] = tuple(_attached(row) for row in database.query(flavor.show_replicas))
    processes = database.query("SHOW FULL PROCESSLIST")
    fields["clients"] = tuple(clients(processes, our_users))
    known = previous.server if previous else None
    fields["backup_connections"] = backup_connections(
        processes, addresses, now, (known.backup_connections if known else None) or ()
    )
    if measure or known is None or known.stored is None:
        fields["stored"] = _stored(database, flavor, fields["datadir"])
        fields["innodb_bytes"] = _innodb_bytes(database, flavor)
        fields["foreign_engines"] = _foreign_engines(database)
        fields["gtid_purged"] = _purged(database, flavor) if fields["log_bin"] else None
    else:
        fields |= {name: getattr(known, name) for name in STORED}
    fields["clone"] = _clone(database, flavor)
    fields["set_at_run_time"] = _set_at_run_time(database, flavor)
    fields["missing_privileges"] = missing_privileges(database, flavor)
    return ServerReading(ServerFacts(**fields), flavor)


def redo_rate(lsn: int, now: datetime, previous: InstanceFacts | None) -> float | None:
    """Return bytes of redo per second since the previous probe.

    ``None`` if there is no previous probe, or if the number decreased (another data directory).
    """
    if previous is None or previous.server is None or not lsn or lsn < previous.server.redo_lsn:
        return None
    seconds = (now - previous.observed_at).total_seconds()
    if seconds < RATE_SECONDS:
        return previous.server.redo_bytes_per_second
    return (lsn - previous.server.redo_lsn) / seconds


def clients(rows: Iterable[Mapping[str, Any]], our_users: Iterable[str]) -> Iterable[Client]:
    """Return client connections of ``SHOW PROCESSLIST``: not ours, no replica's, not the server's."""
    spared = SYSTEM_USERS | set(our_users)
    for row in rows:
        user, command = str(row["User"] or ""), str(row["Command"] or "")
        if user not in spared and not command.startswith(("Binlog Dump", "Daemon", "Slave", "Replica")):
            yield Client(user, str(row["Host"] or ""), str(row["db"] or ""), command)


def backup_connections(
    rows: Iterable[Mapping[str, Any]], addresses: Iterable[str], now: datetime, known: Iterable[BackupConnection]
) -> tuple[BackupConnection, ...]:
    """Return backup tools' connections of ``SHOW PROCESSLIST``.

    Between two typical statements such a connection runs others or sleeps, so a connection of ``known`` (the previous
    probe's) still belongs to the backup.
    """
    before = {(item.number, item.user, item.client): item for item in known}
    local = LOCAL_NAMES | set(addresses)
    found = []
    for row in rows:
        number, user, client = int(row["Id"]), str(row["User"] or ""), str(row["Host"] or "")
        statement = str(row.get("Info") or "")
        if match := tool_of_statement(statement):
            since = now - timedelta(seconds=max(0, int(row.get("Time") or 0)))
            earlier = before.get((number, user, client))
            tool, method = match
            found.append(
                BackupConnection(
                    number=number,
                    user=user,
                    client=client,
                    is_local=client_host(client) in local,
                    tool=tool,
                    method=method,
                    statement=" ".join(statement.split())[:STATEMENT_CHARACTERS],
                    since=min(since, earlier.since) if earlier else since,
                )
            )
        elif earlier := before.get((number, user, client)):
            found.append(earlier)
    return tuple(found)


def client_host(client: str) -> str:
    """Return the host of ``host:port``; an IPv6 address contains colons."""
    host, _, port = client.rpartition(":")
    return host if host and port.isdigit() else client


def _named(database: Database, kind: str, names: tuple[str, ...]) -> dict[str, str]:
    if not names:
        return {}
    places = ", ".join(["%s"] * len(names))
    rows = database.query(f"SHOW GLOBAL {kind} WHERE Variable_name IN ({places})", names)
    asked = {name.lower(): name for name in names}  # servers differ in case
    return {asked[str(row["Variable_name"]).lower()]: str(row["Value"]) for row in rows}


def _replication(database: Database, flavor: Flavor, status: Mapping[str, str]) -> tuple[ReplicationFacts, ...]:
    """Assign the appliers' temporary tables to the first connection: the server counts them over all connections."""
    found = read_channels(database, flavor)
    tables = next((status[name] for name in TEMP_TABLES if status.get(name)), "0")
    return (replace(found[0], open_temp_tables=int(tables)), *found[1:]) if found else ()


def _attached(row: Mapping[str, Any]) -> Attached:
    lower = {name.lower(): value for name, value in row.items()}
    port = int(lower.get("port") or 0)
    return Attached(int(lower["server_id"]), str(lower.get("host") or ""), port or None)


#: Older servers of the series lack some; only existing ones are read.
CLONE_VARIABLES = (
    "super_read_only",
    "max_allowed_packet",
    "version_compile_os",
    "version_compile_machine",
    "character_set_server",
    "collation_server",
    "ssl_cert",
    "clone_block_ddl",
)


def _clone(database: Database, flavor: Flavor) -> CloneFacts | None:
    if flavor.name != "mysql" or flavor.version < FIRST_VERSION:
        return None
    found = _named(database, "VARIABLES", CLONE_VARIABLES)
    rows = database.query("SELECT PLUGIN_STATUS AS status FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'clone'")
    return CloneFacts(
        plugin=str(rows[0]["status"]) if rows else "",
        super_read_only=truth_of(found, "super_read_only"),
        max_allowed_packet=number_of(found, "max_allowed_packet"),
        platform=f"{text_of(found, 'version_compile_os')} {text_of(found, 'version_compile_machine')}",
        charset=text_of(found, "character_set_server"),
        collation=text_of(found, "collation_server"),
        tls=bool(text_of(found, "ssl_cert")),
        blocks_ddl=truth_of(found, "clone_block_ddl"),
    )


def _set_at_run_time(database: Database, flavor: Flavor) -> tuple[RunTimeSetting, ...] | None:
    """Return what was set on the running server, ``None`` if it does not tell it, or not this account."""
    statement = show_run_time_settings(flavor)
    try:
        return run_time_settings_from(database.query(statement), flavor) if statement else None
    except Unreachable:
        raise
    except RemoteFailure:
        return None


def missing_privileges(database: Database, flavor: Flavor) -> tuple[str, ...] | None:
    """Return what the account lacks, ``None`` if the server does not tell it, as with ``--skip-grant-tables`` (error 1290)."""
    try:
        grants = [str(text) for row in database.query(SHOW_GRANTS) for text in row.values()]
    except Unreachable:
        raise
    except RemoteFailure:
        return None
    return missing_for_rebuild(flavor, grants)


def _purged(database: Database, flavor: Flavor) -> str | None:
    """Return purged GTIDs, ``None`` if the account cannot read them."""
    try:
        logs = database.query("SHOW BINARY LOGS")
        rows = database.query(flavor.oldest_gtid(str(logs[0]["Log_name"]))) if logs else []
    except RemoteFailure:
        return None
    return without_space(str(rows[0]["gtid"])) if rows and rows[0]["gtid"] is not None else None


def _lsn_from_status(database: Database) -> int:
    """Read the number from ``SHOW ENGINE``: before MySQL 8.0.30 and MariaDB 10.5 no status variable has it."""
    rows = database.query("SHOW ENGINE INNODB STATUS")
    found = LSN.search(str(rows[0]["Status"])) if rows else None
    return int(found[1]) if found else 0


def _stored(database: Database, flavor: Flavor, datadir: str) -> StoredData | None:
    """Return the facts of the data; ``None`` if the server answers but not this, for example with a full temporary directory."""
    try:
        return read_stored(database, flavor, datadir)
    except Unreachable:
        raise
    except RemoteFailure:
        return None


def _innodb_bytes(database: Database, flavor: Flavor) -> int | None:
    new_names = flavor.name == "mysql" and flavor.version >= (8, 0, 0)
    table = "INNODB_TABLESPACES" if new_names else "INNODB_SYS_TABLESPACES"
    rows = database.query(f"SELECT SUM(FILE_SIZE) AS bytes FROM information_schema.{table}")  # noqa: S608 - constants
    return int(rows[0]["bytes"]) if rows and rows[0]["bytes"] is not None else None


def _foreign_engines(database: Database) -> dict[str, int]:
    rows = database.query(
        "SELECT ENGINE AS engine, COUNT(*) AS tables FROM information_schema.TABLES"  # noqa: S608 - constants
        f" WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN {SYSTEM_SCHEMAS} AND ENGINE <> 'InnoDB' GROUP BY ENGINE"
    )
    return {str(row["engine"]): int(row["tables"]) for row in rows}
