"""How evenly a TiDB table's writes are spread over the stores, and what makes all inserts go to one of them."""

from collections.abc import Iterable
from dataclasses import dataclass

from dbops.engine.facts.tidb import StoreLeaders, TablePlacement
from dbops.engine.phrases import phrase

#: From this factor on, a table's busiest store is named: the field report's table had 12 on 12 stores.
NOTICEABLE = 2.0
#: As reported of a table whose row ids, or ids, are in one shard: alone, or with ``(PK_IS_HANDLE)``.
NOT_SHARDED = "NOT_SHARDED"
INTEGERS = ("tinyint", "smallint", "mediumint", "int", "integer", "bigint")
#: Partitioning that spreads new rows. By range they all go to the last partition.
SPREADING = ("KEY", "HASH")


@dataclass(frozen=True, slots=True)
class Skew:
    """The part of the busiest store.

    ``share`` is its part of all leaders, or of all written bytes (``by_bytes``) where PD reports them. ``factor`` compares it with
    an even part: 1.0 is even, and the number of stores is all on one.
    """

    store: int
    share: float
    factor: float
    by_bytes: bool

    @property
    def is_noticeable(self) -> bool:
        return self.factor >= NOTICEABLE


def skew_of(stores: Iterable[StoreLeaders], tikv_nodes: int | None) -> Skew | None:
    """Return the skew of a table; ``None`` with less than two stores, or without regions.

    Args:
        tikv_nodes: stores of the cluster; those without a leader of the table count as well. ``None``: unknown.
    """
    known = tuple(stores)
    count = max(tikv_nodes or 0, len(known))
    by_bytes = any(one.written_bytes for one in known)
    parts = {one.store: one.written_bytes if by_bytes else one.regions for one in known}
    whole = sum(parts.values())
    if count < 2 or not whole:
        return None
    busiest = max(parts, key=lambda store: (parts[store], -store))
    share = parts[busiest] / whole
    return Skew(busiest, share, share * count, by_bytes)


def is_sharded(table: TablePlacement) -> bool:
    """Return whether new rows get an id in one of several shards."""
    return bool(table.sharding) and not table.sharding.startswith(NOT_SHARDED)


def why_hot(table: TablePlacement) -> str:
    """Return why each new row goes to the same region, ``""`` if it does not, as far as the definition tells."""
    if is_sharded(table) or table.partition_method.upper() in SPREADING:
        return ""
    if not table.is_clustered:
        return phrase(
            "Row ids are given in ascending order (NONCLUSTERED, SHARD_ROW_ID_BITS = 0): each new row goes to "
            "the last region."
        )
    if table.counts_up:
        return phrase(
            "The clustered primary key begins with an AUTO_INCREMENT column: each new row goes to the last region."
        )
    return ""
