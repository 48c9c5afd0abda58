"""The hourly part of a probe: what a server holds and uses. Each statement has a time limit, and all of them together."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dbops.engine.errors import DbopsError, RemoteFailure, Unreachable
from dbops.engine.facts.age import age_seconds
from dbops.engine.facts.growth import AutoIncrement, GrowthReading, TableSize
from dbops.engine.facts.instance import InstanceFacts, ServerFacts
from dbops.engine.flavors import growth
from dbops.engine.flavors.base import Flavor
from dbops.engine.ports import Database

#: Interval of two readings.
EVERY_SECONDS = 3600.0
#: Limit of one statement, shorter than the connection's patience, and of all: the rest is unknown in this hour.
STATEMENT_SECONDS, TOTAL_SECONDS = 2, 6.0


def is_growth_due(now: datetime, previous: InstanceFacts | None) -> bool:
    """Whether a reading is due: none yet, an hour ago, or in the future, before the clock was set back."""
    if previous is None or previous.growth is None:
        return True
    age = age_seconds(previous.growth.read_at, now)
    return age is None or age >= EVERY_SECONDS


def read_growth(
    database: Database, flavor: Flavor, now: datetime, previous: GrowthReading | None, server: ServerFacts
) -> GrowthReading:
    """Read what a server holds and uses. What it does not tell is ``None``, and everything after an error.

    Args:
        previous: the last reading: its fullest auto-increment columns are read again.
        server: the facts of this probe.
    """
    try:
        return _GrowthReader(database, flavor, now).read(previous, server)
    except DbopsError:
        # the next reading is due in an hour, not in the next probe
        return GrowthReading(now, auto_increment=previous.auto_increment if previous else None)


class _GrowthReader:
    """One reading over one connection, which is used for nothing else afterwards."""

    def __init__(self, database: Database, flavor: Flavor, now: datetime) -> None:
        self._database, self._flavor, self._now = database, flavor, now
        self._until = time.monotonic() + TOTAL_SECONDS

    def read(self, previous: GrowthReading | None, server: ServerFacts) -> GrowthReading:
        self._limit()
        status = self._named("STATUS", (*growth.STATUS, *growth.WRITES))
        variables = self._named("VARIABLES", growth.VARIABLES)
        sizes = self._rows(growth.SIZES) or [{}]
        logs = self._rows("SHOW BINARY LOGS") if server.log_bin else []
        counted = self._rows(growth.count_tables(self._flavor)) or [{}]
        tables = _number(counted[0].get("whole"))
        others = 0 if growth.has_dictionary(self._flavor) else sum(server.foreign_engines.values())
        return GrowthReading(
            read_at=self._now,
            schemas=self._count(growth.SCHEMAS),
            tables=None if tables is None else tables + others,
            partitions=_number(counted[0].get("parts")),
            data_bytes=_number(sizes[0].get("data")),
            index_bytes=_number(sizes[0].get("indexes")),
            largest=self._largest(),
            auto_increment=self._auto_increment(previous, _number(sizes[0].get("entries"))),
            open_tables=status.get("open_tables"),
            open_definitions=status.get("open_table_definitions"),
            open_files=status.get("open_files"),
            **{name: variables.get(name) for name in growth.VARIABLES},
            connections=status.get("threads_connected"),
            connections_peak=status.get("max_used_connections"),
            binlog_bytes=None if logs is None else sum(_number(row["File_size"]) or 0 for row in logs),
            uptime_seconds=status.get("uptime"),
            questions=status.get("questions"),
            writes=_sum(status.get(name.lower()) for name in growth.WRITES),
            redo_bytes=status.get("innodb_os_log_written"),
            cache_misses=status.get("table_open_cache_misses", status.get("opened_tables")),
        )

    def _limit(self) -> None:
        """Let the server end a statement that takes too long; the connection stays usable."""
        is_mariadb = self._flavor.name == "mariadb"
        name = "max_statement_time" if is_mariadb else "max_execution_time"
        limit = STATEMENT_SECONDS if is_mariadb else STATEMENT_SECONDS * 1000
        self._database.execute(f"SET SESSION {name} = {limit}")

    def _rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]] | None:
        """Return rows, ``None`` if the account may not read them, or there is no time left."""
        if time.monotonic() > self._until:
            return None
        try:
            return self._database.query(sql, parameters)
        except Unreachable:
            raise
        except RemoteFailure:
            return None

    def _count(self, sql: str) -> int | None:
        rows = self._rows(sql)
        return _number(rows[0]["found"]) if rows else None

    def _named(self, kind: str, names: Sequence[str]) -> dict[str, int]:
        """Return the numbers among global variables or status variables, by lower-case name."""
        places = ", ".join(["%s"] * len(names))
        rows = self._rows(f"SHOW GLOBAL {kind} WHERE Variable_name IN ({places})", names) or []
        found = {str(row["Variable_name"]).lower(): _number(row["Value"]) for row in rows}
        return {name: value for name, value in found.items() if value is not None}

    def _largest(self) -> tuple[TableSize, ...] | None:
        whole, partitioned = self._rows(growth.LARGEST_WHOLE), self._rows(growth.LARGEST_PARTITIONED)
        if whole is None or partitioned is None:
            return None
        found = [TableSize(str(row["s"]), str(row["n"]), _number(row["bytes"]) or 0) for row in (*whole, *partitioned)]
        return tuple(sorted(found, key=lambda one: -one.bytes)[: growth.MOST_LISTED])

    def _auto_increment(self, previous: GrowthReading | None, entries: int | None) -> tuple[AutoIncrement, ...] | None:
        """Return the fullest columns of those known, and of the tables whose turn it is in this hour.

        All tables at once would take too long, and push tables in use out of the cache.
        """
        known = previous.auto_increment if previous else None
        turn = self._tables_of_this_hour(entries) if entries is not None else None
        if turn is None:
            return known
        if growth.has_dictionary(self._flavor):
            self._rows(growth.LIVE_COUNTERS)
        names = list(dict.fromkeys([*((one.schema, one.table) for one in known or ()), *turn]))
        found: dict[str, AutoIncrement] = {}
        for start in range(0, len(names), growth.TABLES_AT_ONCE):
            some = names[start : start + growth.TABLES_AT_ONCE]
            rows = self._rows(growth.counters(len(some)), [name for pair in some for name in pair * 2])
            if rows is None:
                # what was not read this time may still be the fullest
                found = {one.name: one for one in known or ()} | found
                break
            found |= {one.name: one for one in map(_counter, rows) if one is not None}
        fullest = sorted(found.values(), key=lambda one: (-one.value / one.largest, one.name))
        return tuple(fullest[: growth.MOST_LISTED])

    def _tables_of_this_hour(self, entries: int) -> list[tuple[str, str]] | None:
        """Return the names of the next ``TABLES_OF_AN_HOUR`` entries of InnoDB's statistics; after the last come the first."""
        turns = max(1, -(-entries // growth.TABLES_OF_AN_HOUR))
        start = int(self._now.timestamp() // EVERY_SECONDS) % turns * growth.TABLES_OF_AN_HOUR
        rows = self._rows(growth.NAMES, (start, growth.TABLES_OF_AN_HOUR))
        return None if rows is None else [(str(row["s"]), growth.without_partition(str(row["n"]))) for row in rows]


def _counter(row: Mapping[str, Any]) -> AutoIncrement | None:
    value, largest = _number(row["value"]), growth.largest_value(str(row["kind"]))
    if value is None or largest is None:
        return None
    return AutoIncrement(str(row["s"]), str(row["n"]), str(row["c"]), value, largest)


def _number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
