"""Advice for a TiDB table whose inserts all go to one node: three ways as DDL, with their price and how to undo them.

Each statement was run on a tidb-server (``tests/by_hand/test_tidb.py``). Sources: TiDB's pages on SHARD_ROW_ID_BITS, AUTO_RANDOM,
partitioned tables and table attributes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dbops.engine.capacity.tidb_placement import INTEGERS, SPREADING, is_sharded
from dbops.engine.facts.tidb import TablePlacement
from dbops.engine.flavors.sql_text import sql_name
from dbops.engine.phrases import joined, phrase

#: Shards of 4 bits: 16, enough for the 12 nodes of the field report. A statement takes at most 15.
FEWEST_BITS, MOST_BITS = 2, 15
MOST_PARTITIONS: Final = 8192
AUTO_RANDOM_BITS = 5
MOST_AUTO_RANDOM_BITS = 15
#: Since this release an existing table can be partitioned in place.
PARTITIONS_IN_PLACE = (7, 4, 0)
#: Since this release ``tidb_scatter_region`` is no switch, but says how far to spread.
SCATTERS_BY_WORD = (8, 4, 0)
COPY_ROWS = 10_000

_CLUSTERED = re.compile(r"^(  PRIMARY KEY \(.*\)) /\*T!\[clustered_index\] CLUSTERED \*/(,?)$", re.MULTILINE)
_END = re.compile(r"^\) ENGINE=InnoDB\b(?! .*/\*T! SHARD_ROW_ID_BITS)(.*)$", re.MULTILINE)
_START = re.compile(r"\ACREATE TABLE (?:`(?:[^`]|``)+`\.)?`(?:[^`]|``)+` \(\n")


@dataclass(frozen=True, slots=True)
class SpreadOption:
    """One way to spread a table's inserts.

    ``statements`` are exact; ``undo`` takes them back. ``price`` is what reads and writes pay. ``is_in_place``: the table is
    altered, not copied. ``why_not``: why the table cannot go this way, then without statements.
    """

    name: str
    title: str
    statements: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    price: tuple[str, ...] = ()
    is_in_place: bool = True
    why_not: str = ""

    @property
    def sql(self) -> str:
        return "\n".join(self.statements)

    @property
    def undo_sql(self) -> str:
        return "\n".join(self.undo)


def ways_for(table: TablePlacement, *, tikv_nodes: int, release: str) -> tuple[SpreadOption, ...]:
    """Return the ways for a table, those that it can go first.

    Args:
        tikv_nodes: number of TiKV nodes: one partition for each. release: TiDB's version, ``""`` if unknown.
    """
    numbers = tuple(int(part) for part in release.split(".")) if release else ()
    make = _Advice(table, max(1, tikv_nodes), numbers)
    ways = (make.by_partitions(), make.by_shards(), make.by_random_ids())
    return tuple(sorted(ways, key=lambda way: bool(way.why_not)))


def shard_bits(tikv_nodes: int) -> int:
    """Return how many bits give each TiKV node at least one shard: 4 for 12 nodes."""
    return min(MOST_BITS, max(FEWEST_BITS, (tikv_nodes - 1).bit_length()))


class _Advice:
    def __init__(self, table: TablePlacement, nodes: int, release: tuple[int, ...]) -> None:
        self._table, self._nodes, self._release = table, nodes, release
        self._name = f"{sql_name(table.schema)}.{sql_name(table.table)}"
        self._new = f"{sql_name(table.schema)}.{sql_name(_short(table.table, '_new'))}"
        self._old = f"{sql_name(table.schema)}.{sql_name(_short(table.table, '_old'))}"
        self._bits = shard_bits(nodes)

    def by_partitions(self) -> SpreadOption:
        """Return KEY partitions, one for each TiKV node."""
        count = min(MOST_PARTITIONS, max(2, self._nodes))
        name, title = "partitions", phrase("{count} KEY partitions", count=count)
        column, why_not = self._partition_column()
        if why_not or column is None:
            return SpreadOption(name, title, why_not=why_not)
        statements = (
            f"ALTER TABLE {self._name} PARTITION BY KEY ({sql_name(column)}) PARTITIONS {count};",
            self._deny(),
            self._check(),
        )
        price = (
            phrase("A lookup or range without {column} reads all {count} partitions.", column=column, count=count),
            phrase("Each unique key must contain {column}.", column=column),
            phrase("The change copies all rows in the background."),
        )
        undo = (f"ALTER TABLE {self._name} REMOVE PARTITIONING;", self._allow())
        return SpreadOption(name, title, statements, undo, price)

    def _partition_column(self) -> tuple[str | None, str]:
        table = self._table
        if problem := self._unwritable():
            return None, problem
        if table.partition_method:
            return None, phrase("It is partitioned by {partition_method}.", partition_method=table.partition_method)
        if self._release and self._release < PARTITIONS_IN_PLACE:
            return None, phrase("This release cannot partition an existing table.")
        keys = [key for key in (table.primary_key, *table.unique_keys) if key]
        if not keys:
            return None, phrase("It has no unique key: choose a column with many different values.")
        shared = [column for column in keys[0] if all(column in key for key in keys)]
        return (shared[0], "") if shared else (None, phrase("No column is part of all its unique keys."))

    def by_shards(self) -> SpreadOption:
        """Return row ids in shards: in place without a clustered primary key, else with a new table."""
        name, title = "shards", phrase("NONCLUSTERED, {bits} shards of row ids", bits=2**self._bits)
        table = self._table
        if problem := self._unwritable():
            return SpreadOption(name, title, why_not=problem)
        if is_sharded(table):
            return SpreadOption(name, title, why_not=phrase("It has {sharding}.", sharding=table.sharding))
        price = (
            phrase("A lookup by primary key reads its index and then the row."),
            phrase("A range of the primary key reads rows of all {bits} shards.", bits=2**self._bits),
            phrase("An index on an ascending column, the primary key’s as well, still grows at its end."),
        )
        if not table.is_clustered:
            statements = (
                f"ALTER TABLE {self._name} SHARD_ROW_ID_BITS = {self._bits};",
                *([] if table.partition_method else [self._split()]),
                self._deny(),
                self._check(),
            )
            undo = (f"ALTER TABLE {self._name} SHARD_ROW_ID_BITS = 0;", self._allow())
            return SpreadOption(name, title, statements, undo, price[1:])
        definition = sharded_definition(table.definition, self._new, self._bits) if table.primary_key else ""
        if not definition:
            return SpreadOption(
                name,
                title,
                is_in_place=False,
                why_not=phrase("Its definition could not be rewritten: write it by hand."),
            )
        return SpreadOption(
            name,
            title,
            tuple(self._copied(definition)),
            self._swapped_back(),
            (*price, *_COPY_PRICE),
            is_in_place=False,
        )

    def _copied(self, definition: str) -> Iterator[str]:
        yield f"SET SESSION tidb_scatter_region = {self._scatter()};"
        yield f"{definition};"
        yield self._deny(self._new)
        yield self._check(self._new)
        copy = f"INSERT INTO {self._new} SELECT * FROM {self._name}; -- stop writes first"  # noqa: S608 - shown, never run
        yield (
            copy
            if self._breaks_batch()
            else f"BATCH ON {sql_name(self._table.primary_key[0])} LIMIT {COPY_ROWS} {copy}"
        )
        yield f"RENAME TABLE {self._name} TO {self._old}, {self._new} TO {self._name}; -- compare both first"

    def _breaks_batch(self) -> bool:
        """Return whether a name has a back-tick: TiDB 8.4 writes its parts of a BATCH without quoting it."""
        names = (self._table.schema, self._table.table, *self._table.primary_key)
        return any("`" in name for name in names)

    def _swapped_back(self) -> tuple[str, ...]:
        return (f"RENAME TABLE {self._name} TO {self._new}, {self._old} TO {self._name};",)

    def by_random_ids(self) -> SpreadOption:
        """Return AUTO_RANDOM for a clustered BIGINT key that counts up."""
        bits = min(MOST_AUTO_RANDOM_BITS, max(AUTO_RANDOM_BITS, self._bits))
        name, title, table = "random_ids", f"AUTO_RANDOM({bits})", self._table
        if reason := self._unwritable() or self._why_no_random_ids():
            return SpreadOption(name, title, why_not=reason)
        column = sql_name(table.primary_key[0])
        kind = "BIGINT UNSIGNED" if "unsigned" in table.first_key_type.lower() else "BIGINT"
        statements = (
            "SET SESSION tidb_allow_remove_auto_inc = ON;",
            f"ALTER TABLE {self._name} MODIFY COLUMN {column} {kind} NOT NULL AUTO_RANDOM({bits});",
            self._deny(),
        )
        price = (
            phrase("New ids do not ascend: ORDER BY the id is no order of time."),
            phrase("Clients must read ids up to 2⁶³: JavaScript numbers cannot."),
            phrase("An INSERT that names an id needs allow_auto_random_explicit_insert = ON."),
            phrase("The column loses its comment, if it has one."),
            phrase("It cannot be undone in place: only with a new table and a copy."),
        )
        return SpreadOption(name, title, statements, (self._allow(),), price)

    def _why_no_random_ids(self) -> str:
        table = self._table
        if is_sharded(table):
            return phrase("It has {sharding}.", sharding=table.sharding)
        if not table.is_clustered or not table.primary_key:
            return phrase("It has no clustered primary key.")
        if len(table.primary_key) > 1:
            return phrase("Its primary key has several columns: TiDB changes only a column that is the whole key.")
        if not table.first_key_type.lower().startswith("bigint"):
            kind = table.first_key_type or phrase("an unknown type")
            small = kind.lower().startswith(INTEGERS)
            text = phrase("Its key is {kind}, not BIGINT.", kind=kind)
            return joined((text, phrase("An in-place change to BIGINT comes first."))) if small else text
        if not table.counts_up:
            return phrase("Its key is not AUTO_INCREMENT: the application gives the ids.")
        return (
            ""
            if not table.partition_method
            else phrase("It is partitioned by {partition_method}.", partition_method=table.partition_method)
        )

    def _unwritable(self) -> str:
        """Return why no statement can be shown exactly: a page loses control characters, and others turn text around."""
        names = (self._table.schema, self._table.table, *self._table.primary_key)
        return "" if all(map(str.isprintable, names)) else phrase("A name contains a character that cannot be shown.")

    def _split(self) -> str:
        return f"SPLIT TABLE {self._name} BETWEEN (0) AND ({2**63 - 1}) REGIONS {2**self._bits};"

    def _scatter(self) -> str:
        return "'table'" if not self._release or self._release >= SCATTERS_BY_WORD else "ON"

    def _deny(self, name: str = "") -> str:
        """Keep PD from merging the empty regions before they fill."""
        return f"ALTER TABLE {name or self._name} ATTRIBUTES 'merge_option=deny';"

    def _allow(self) -> str:
        return f"ALTER TABLE {self._name} ATTRIBUTES DEFAULT;"

    def _check(self, name: str = "") -> str:
        """List regions that are still moving: splitting and scattering continue after the statement. Repeat until it lists none."""
        return f"SHOW TABLE {name or self._name} REGIONS WHERE SCATTERING = 1; -- repeat until it lists none"


#: What ``INSERT ... SELECT *`` cannot fill, and what a renamed table would keep or lose.
_NOT_COPIED = ("PARTITION BY", "GENERATED ALWAYS AS", "FOREIGN KEY")
_COPY_PRICE = (
    phrase("The copy needs space for a second table, and writes must stop from the copy to the rename."),
    phrase(
        "BATCH copies in several transactions: compare both tables before the rename. Without BATCH the copy "
        "is one transaction."
    ),
    phrase("Foreign keys of other tables keep pointing to the old table."),
)


def sharded_definition(definition: str, new_name: str, bits: int) -> str:
    """Return a clustered table's definition as NONCLUSTERED with sharded row ids; ``""`` if it is not written as expected.

    Args:
        definition: of ``SHOW CREATE TABLE``. new_name: quoted.
    """
    if not all(map(str.isprintable, definition.split("\n"))) or len(_CLUSTERED.findall(definition)) != 1:
        return ""
    if (
        len(_END.findall(definition)) != 1
        or not _START.search(definition)
        or any(map(definition.__contains__, _NOT_COPIED))
    ):
        return ""
    text = _START.sub(lambda _: f"CREATE TABLE {new_name} (\n", definition)
    text = _CLUSTERED.sub(r"\1 /*T![clustered_index] NONCLUSTERED */\2", text)
    return _END.sub(lambda end: f") ENGINE=InnoDB SHARD_ROW_ID_BITS={bits} PRE_SPLIT_REGIONS={bits}{end[1]}", text)


def _short(table: str, suffix: str) -> str:
    """Return a table's name with a suffix, within the 64 characters of a name."""
    return table[: 64 - len(suffix)] + suffix


def is_advised(table: TablePlacement) -> bool:
    """Return whether the table is of a kind for which a way can help: neither sharded nor spread by its partitions."""
    return not is_sharded(table) and table.partition_method.upper() not in SPREADING
