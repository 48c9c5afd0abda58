"""The server part of a probe of a TiDB node. What an older or a smaller TiDB rejects is unknown, never a failed probe."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from dbops.engine.errors import DbopsError, RemoteFailure, Unreachable
from dbops.engine.facts.growth import GrowthReading, TableSize
from dbops.engine.facts.instance import InstanceFacts, ServerFacts
from dbops.engine.facts.server_kind import ServerKind
from dbops.engine.facts.tidb import StoreLeaders, TablePlacement, TidbFacts, TidbNode
from dbops.engine.flavors.sql_text import sql_name
from dbops.engine.flavors.tidb import NAME, release_of, store_of
from dbops.engine.flavors.variables import number_of, text_of, truth_of
from dbops.engine.ports import Database

#: Tables whose regions are listed, and the most regions of one: TiDB asks PD for each of them.
MOST_TABLES: Final = 10
MOST_REGIONS: Final = 2000
#: Size at which TiKV splits a region.
REGION_BYTES: Final = 96 * 2**20
MOST_NODES: Final = 1000
MOST_DEFINITION_CHARACTERS: Final = 20_000
#: Limit of one statement, and of all of the hourly reading.
STATEMENT_MS, TOTAL_SECONDS = 2000, 8.0

VARIABLES: Final = ("hostname", "port", "socket", "datadir", "log_bin", "read_only", "lower_case_table_names")
TIDB_VERSION: Final = "SELECT tidb_version() AS text"
UPTIME: Final = "SHOW GLOBAL STATUS WHERE Variable_name = 'Uptime'"
NODES: Final = (
    "SELECT TYPE AS kind, INSTANCE AS address, VERSION AS version FROM information_schema.CLUSTER_INFO"  # noqa: S608 - constants
    f" ORDER BY TYPE, INSTANCE LIMIT {MOST_NODES}"
)
_SYSTEM: Final = "('mysql', 'sys', 'performance_schema', 'information_schema', 'metrics_schema')"
SCHEMAS: Final = f"SELECT COUNT(*) AS found FROM information_schema.SCHEMATA WHERE LOWER(SCHEMA_NAME) NOT IN {_SYSTEM}"  # noqa: S608
USER_SCHEMAS: Final = (
    "SELECT SCHEMA_NAME AS name FROM information_schema.SCHEMATA"  # noqa: S608 - constants
    f" WHERE LOWER(SCHEMA_NAME) NOT IN {_SYSTEM} AND LOWER(SCHEMA_NAME) <> 'test' ORDER BY SCHEMA_NAME LIMIT 5"
)
_USERS: Final = (
    f" FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND LOWER(TABLE_SCHEMA) NOT IN {_SYSTEM}"
)
SIZES: Final = f"SELECT COUNT(*) AS found, SUM(DATA_LENGTH) AS data, SUM(INDEX_LENGTH) AS indexes{_USERS}"
LARGEST: Final = (
    "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS n, DATA_LENGTH + INDEX_LENGTH AS bytes, TABLE_ROWS AS found,"  # noqa: S608
    f" TIDB_ROW_ID_SHARDING_INFO AS sharding, TIDB_PK_TYPE AS pk{_USERS}"
    f" ORDER BY bytes DESC, found DESC, s, n LIMIT {MOST_TABLES}"
)
_OF_TABLE: Final = " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
KEYS: Final = (
    "SELECT INDEX_NAME AS k, COLUMN_NAME AS c FROM information_schema.STATISTICS"  # noqa: S608 - constants
    f"{_OF_TABLE} AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX"
)
COLUMN: Final = (
    f"SELECT COLUMN_TYPE AS kind, EXTRA AS extra FROM information_schema.COLUMNS{_OF_TABLE} AND COLUMN_NAME = %s"  # noqa: S608
)
PARTITIONS: Final = (
    "SELECT COUNT(*) AS found, MAX(PARTITION_METHOD) AS method FROM information_schema.PARTITIONS"  # noqa: S608 - constants
    f"{_OF_TABLE} AND PARTITION_NAME IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class TidbReading:
    """The facts of a node, and the hourly reading if it was due."""

    facts: ServerFacts
    growth: GrowthReading | None


def read_tidb(
    database: Database, version: str, comment: str, *, now: datetime, previous: InstanceFacts | None, grows: bool
) -> TidbReading:
    """Read a TiDB node's facts.

    Args:
        grows: the hourly reading is due: sizes, and where the regions of the largest tables are. Else they come from ``previous``.

    Raises:
        Unreachable: the connection was lost before the hourly reading.
    """
    reader = _TidbReader(database)
    reader.limit()
    values = reader.variables()
    text = str((reader.rows(TIDB_VERSION) or [{}])[0].get("text") or "")
    known = previous.server.tidb if previous and previous.server else None
    cluster = replace(
        known or TidbFacts(""),
        release=release_of(version, text),
        store=store_of(text),
        nodes=reader.nodes(),
        user_schemas=reader.user_schemas(),
    )
    growth = None
    if grows:
        cluster = reader.hourly(cluster, now)
        growth = _growth(cluster, now)
    return TidbReading(_facts(version, comment, values, cluster), growth)


class _TidbReader:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._until = time.monotonic() + TOTAL_SECONDS

    def limit(self) -> None:
        """Let the server end a statement that takes too long."""
        try:
            self._database.execute(f"SET SESSION max_execution_time = {STATEMENT_MS}")
        except Unreachable:
            raise
        except RemoteFailure:  # an older TiDB: the connection's own limit stays
            return

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]] | None:
        """Return rows, ``None`` if the server rejects the statement."""
        try:
            return self._database.query(sql, parameters)
        except Unreachable:
            raise
        except RemoteFailure:
            return None

    def variables(self) -> dict[str, str]:
        places = ", ".join(["%s"] * len(VARIABLES))
        rows = self.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({places})", VARIABLES) or []
        rows += self.rows(UPTIME) or []
        return {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}

    def nodes(self) -> tuple[TidbNode, ...] | None:
        rows = self.rows(NODES)
        if rows is None:
            return None
        return tuple(TidbNode(str(row["kind"]).lower(), str(row["address"]), str(row["version"] or "")) for row in rows)

    def user_schemas(self) -> tuple[str, ...] | None:
        rows = self.rows(USER_SCHEMAS)
        return None if rows is None else tuple(str(row["name"]) for row in rows)

    def hourly(self, known: TidbFacts, now: datetime) -> TidbFacts:
        """Return the facts with sizes and placements; those that were read before an error."""
        found = replace(known, read_at=now)
        try:
            schemas, sizes = self.rows(SCHEMAS), self.rows(SIZES)
            whole: Mapping[str, Any] = sizes[0] if sizes else {}
            found = replace(
                found,
                schemas=_number(schemas[0]["found"]) if schemas else None,
                tables=_number(whole.get("found")),
                data_bytes=_number(whole.get("data")),
                index_bytes=_number(whole.get("indexes")),
            )
            largest = self.rows(LARGEST)
            return replace(found, placements=None if largest is None else tuple(self._placements(largest)))
        except DbopsError:  # the connection was lost: the next reading is due in an hour
            return found

    def _placements(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[TablePlacement]:
        """Yield the tables; after a lost connection or the time limit only what their list has."""
        problem = ""
        for row in rows:
            found = _listed(row)
            if not problem and time.monotonic() > self._until:
                problem = "not read in time"
            if not problem:
                try:
                    found = self._with_regions(self._with_definition(found))
                except DbopsError as error:
                    problem = error.cause or "the connection was lost"
            yield found if not problem else replace(found, problem=problem)

    def _with_definition(self, table: TablePlacement) -> TablePlacement:
        place = (table.schema, table.table)
        keys: dict[str, list[str]] = defaultdict(list)
        for row in self.rows(KEYS, place) or ():
            keys[str(row["k"])].append(str(row["c"]))
        primary = tuple(keys.pop("PRIMARY", ()))
        column = self.rows(COLUMN, (*place, primary[0])) if primary else None
        parts = (self.rows(PARTITIONS, place) or [{}])[0]
        definition = str((self.rows(f"SHOW CREATE TABLE {_quoted(table)}") or [{}])[0].get("Create Table") or "")
        return replace(
            table,
            primary_key=primary,
            first_key_type=str(column[0]["kind"] or "") if column else "",
            counts_up="auto_increment" in str(column[0]["extra"] or "").lower() if column else False,
            unique_keys=tuple(tuple(columns) for columns in keys.values()),
            partitions=_number(parts.get("found")) or 0,
            partition_method=str(parts.get("method") or ""),
            definition=definition if len(definition) <= MOST_DEFINITION_CHARACTERS else "",
        )

    def _with_regions(self, table: TablePlacement) -> TablePlacement:
        expected = table.bytes // REGION_BYTES
        if expected > MOST_REGIONS:
            return replace(table, problem=f"about {expected:,} regions are too many to list")
        try:
            rows = self._database.query(f"SHOW TABLE {_quoted(table)} REGIONS")
        except Unreachable:
            raise
        except RemoteFailure as error:
            return replace(table, problem=error.cause or "not given by this server")
        return replace(table, stores=leaders(rows))


def _listed(row: Mapping[str, Any]) -> TablePlacement:
    return TablePlacement(
        schema=str(row["s"]),
        table=str(row["n"]),
        bytes=_number(row["bytes"]) or 0,
        rows=_number(row["found"]) or 0,
        sharding=str(row["sharding"] or ""),
        is_clustered=str(row["pk"] or "").upper() == "CLUSTERED",
    )


def leaders(rows: Iterable[Mapping[str, Any]]) -> tuple[StoreLeaders, ...]:
    """Return the leaders by store, those with most regions first, of ``SHOW TABLE … REGIONS``. A region can be listed twice."""
    regions = {row["REGION_ID"]: row for row in rows}
    found: dict[int, StoreLeaders] = {}
    for row in regions.values():
        store = _number(row.get("LEADER_STORE_ID")) or 0
        known = found.get(store) or StoreLeaders(store, 0)
        found[store] = StoreLeaders(
            store,
            known.regions + 1,
            known.written_bytes + (_number(row.get("WRITTEN_BYTES")) or 0),
            known.read_bytes + (_number(row.get("READ_BYTES")) or 0),
        )
    return tuple(sorted(found.values(), key=lambda one: (-one.regions, one.store)))


def _quoted(table: TablePlacement) -> str:
    """Return the table's name for a statement. The driver takes ``%`` as it is where there are no parameters."""
    return f"{sql_name(table.schema)}.{sql_name(table.table)}"


def _growth(cluster: TidbFacts, now: datetime) -> GrowthReading:
    largest = cluster.placements
    return GrowthReading(
        read_at=now,
        schemas=cluster.schemas,
        tables=cluster.tables,
        data_bytes=cluster.data_bytes,
        index_bytes=cluster.index_bytes,
        largest=None if largest is None else tuple(TableSize(one.schema, one.table, one.bytes) for one in largest),
    )


def _facts(version: str, comment: str, values: Mapping[str, str], cluster: TidbFacts) -> ServerFacts:
    """Return a node's facts. It has no server id, no GTID and no InnoDB."""
    return ServerFacts(
        flavor=NAME,
        version=version,
        version_comment=comment,
        server_id=0,
        server_uuid="",
        hostname=text_of(values, "hostname"),
        port=number_of(values, "port"),
        socket=text_of(values, "socket"),
        datadir="",
        read_only=truth_of(values, "read_only"),
        log_bin=False,
        log_replica_updates=False,
        gtid_enabled=False,
        gtid_executed="",
        gtid_binlog="",
        binlog_format="",
        binlog_expire_seconds=0,
        page_size=0,
        lower_case_table_names=number_of(values, "lower_case_table_names"),
        redo_capacity_bytes=0,
        redo_lsn=0,
        uptime_seconds=number_of(values, "uptime"),
        parallel_workers=0,
        kind=ServerKind(product="TiDB"),
        tidb=cluster,
    )


def _number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None
