"""Statements and names of the hourly growth reading, by flavor and version.

Measured with some thousand small tables (6,000 on MariaDB 10.11.19, 3,000 on MySQL 5.7.22 and 8.0.15), in milliseconds:

* ``mysql.innodb_table_stats``, whole: 2 to 8 on each.
* InnoDB's own list of tables: 4 to 11 on MariaDB and 5.7, but 3,100 to 6,000 on 8.0, which opens each table for it.
* ``information_schema.TABLES`` with conditions on its type: 6 on 8.0, 120 to 550 on the others, which open each definition.
* ``information_schema.PARTITIONS``: 6 to 18 on 8.0, 330 to 2,000 on the others, which open each table.
* ``AUTO_INCREMENT`` of all tables: 340 to 2,800 on each, and tables in use leave the cache.

A whole reading took 360 to 1,650 with 3,000 tables on each, and 750 to 1,200 with 50,000 on MariaDB, on a machine with much other work.
"""

from typing import Final

from dbops.engine.flavors.base import Flavor

_SYSTEM: Final = "('mysql', 'sys', 'performance_schema', 'information_schema', 'ndbinfo')"
#: Tables listed, and auto-increment columns listed.
MOST_LISTED: Final = 10
#: Tables whose auto-increment column one reading looks at, in statements of ``TABLES_AT_ONCE``: each hour the next ones.
TABLES_OF_AN_HOUR: Final = 200
TABLES_AT_ONCE: Final = 20

SCHEMAS: Final = f"SELECT COUNT(*) AS found FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN {_SYSTEM}"  # noqa: S608
_DICTIONARY: Final = (
    "SELECT (SELECT COUNT(*) FROM information_schema.TABLES"  # noqa: S608 - constants
    f" WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN {_SYSTEM}) AS whole,"
    " (SELECT COUNT(*) FROM information_schema.PARTITIONS"
    f" WHERE PARTITION_NAME IS NOT NULL AND TABLE_SCHEMA NOT IN {_SYSTEM}) AS parts"
)
#: The tables and partitions of InnoDB, without those of full-text indexes and of running ALTERs. Only names of partitions are compared
#: with each other: 50,000 names took 2 s on a busy machine.
_INNODB: Final = (
    "SELECT SUM(LOWER(NAME) NOT LIKE '%#p#%') + COUNT(DISTINCT CASE WHEN LOWER(NAME) LIKE '%#p#%' THEN"
    " CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(NAME, '#P#', 1), '#p#', 1) AS BINARY) END) AS whole,"
    " SUM(LOWER(NAME) LIKE '%#p#%') AS parts FROM information_schema.INNODB_SYS_TABLES"
    " WHERE NAME LIKE '%/%' AND NAME NOT LIKE 'mysql/%' AND NAME NOT LIKE 'sys/%'"
    " AND NAME NOT LIKE '%/FTS\\_0%' AND NAME NOT LIKE '%/#sql%'"
)

_KEPT: Final = (
    " FROM mysql.innodb_table_stats WHERE database_name NOT IN ('mysql', 'sys')"
    " AND table_name NOT LIKE '#sql%' AND table_name NOT LIKE 'FTS\\_0%'"
)
_PARTITION: Final = "LOWER(table_name) LIKE '%#p#%'"
SIZES: Final = (
    "SELECT COUNT(*) AS entries, SUM(clustered_index_size) * @@innodb_page_size AS data,"
    f" SUM(sum_of_other_index_sizes) * @@innodb_page_size AS indexes{_KEPT}"
)
#: The largest of the tables in one piece, and of the partitioned ones: to group all would take as long as above.
LARGEST_WHOLE: Final = (
    "SELECT database_name AS s, table_name AS n,"  # noqa: S608 - constants
    " (clustered_index_size + sum_of_other_index_sizes) * @@innodb_page_size AS bytes"
    f"{_KEPT} AND NOT {_PARTITION} ORDER BY bytes DESC LIMIT {MOST_LISTED}"
)
LARGEST_PARTITIONED: Final = (
    "SELECT database_name AS s, SUBSTRING_INDEX(SUBSTRING_INDEX(table_name, '#P#', 1), '#p#', 1) AS n,"  # noqa: S608
    " SUM(clustered_index_size + sum_of_other_index_sizes) * @@innodb_page_size AS bytes"
    f"{_KEPT} AND {_PARTITION} GROUP BY 1, 2 ORDER BY bytes DESC LIMIT {MOST_LISTED}"
)
#: In the order of the primary key. Its parameters: how many to leave out, and how many to return.
NAMES: Final = (
    f"SELECT database_name AS s, table_name AS n{_KEPT.replace('%', '%%')}"  # noqa: S608 - constants
    " ORDER BY database_name, table_name LIMIT %s, %s"
)
#: Both are looked up by the names of one table, so that a server opens that one alone.
_COUNTER: Final = (
    "SELECT t.TABLE_SCHEMA AS s, t.TABLE_NAME AS n, c.COLUMN_NAME AS c, c.COLUMN_TYPE AS kind, t.AUTO_INCREMENT AS value"
    " FROM information_schema.TABLES AS t JOIN information_schema.COLUMNS AS c"
    " WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s AND c.TABLE_SCHEMA = %s AND c.TABLE_NAME = %s"
    " AND c.EXTRA LIKE '%%auto_increment%%' AND t.AUTO_INCREMENT IS NOT NULL"
)
LIVE_COUNTERS: Final = "SET SESSION information_schema_stats_expiry = 0"

STATUS: Final = (
    *("Open_tables", "Open_table_definitions", "Open_files", "Table_open_cache_misses", "Opened_tables"),
    *("Threads_connected", "Max_used_connections", "Uptime", "Questions", "Innodb_os_log_written"),
)
#: Statements that write.
WRITES: Final = (
    *("Com_insert", "Com_insert_select", "Com_update", "Com_update_multi", "Com_delete", "Com_delete_multi"),
    *("Com_replace", "Com_replace_select", "Com_load"),
)
VARIABLES: Final = (
    *("table_open_cache", "table_open_cache_instances", "table_definition_cache", "innodb_open_files"),
    *("open_files_limit", "max_connections"),
)
_LARGEST_VALUES: Final = {
    "tinyint": 2**7,
    "smallint": 2**15,
    "mediumint": 2**23,
    "int": 2**31,
    "integer": 2**31,
    "bigint": 2**63,
}


def count_tables(flavor: Flavor) -> str:
    """Return the statement that counts the users' tables (``whole``; without a dictionary those of InnoDB) and partitions (``parts``)."""
    return _DICTIONARY if has_dictionary(flavor) else _INNODB


def has_dictionary(flavor: Flavor) -> bool:
    """Return whether the server keeps its schema in tables: then counting them opens none."""
    return flavor.name == "mysql" and flavor.version >= (8, 0, 0)


def without_partition(table: str) -> str:
    """Return a table's name of a name in InnoDB's statistics."""
    return table.split("#P#")[0].split("#p#")[0]


def counters(tables: int) -> str:
    """Return the statement that reads the auto-increment columns of so many tables: four parameters each."""
    return " UNION ALL ".join([_COUNTER] * tables)


def largest_value(column_type: str) -> int | None:
    """Return the largest value of an integer type such as ``int(10) unsigned``, ``None`` for another type (``double``)."""
    words = column_type.lower().replace("(", " ").split()
    signed = _LARGEST_VALUES.get(words[0]) if words else None
    if signed is None:
        return None
    return 2 * signed - 1 if "unsigned" in words else signed - 1
