"""What a cluster's page shows of TiDB: its nodes, and where the regions of its largest tables have their leaders."""

from collections import Counter
from dataclasses import dataclass

from dbops.engine.capacity.tidb_advice import SpreadOption, is_advised, ways_for
from dbops.engine.capacity.tidb_placement import Skew, skew_of, why_hot
from dbops.engine.facts.tidb import StoreLeaders, TablePlacement, TidbFacts
from dbops.queries.fleet.cluster import ClusterRow


@dataclass(frozen=True, slots=True)
class StoreShare:
    """The part of one store in a table's written bytes, or in its leaders where no bytes are reported, in percent."""

    leaders: StoreLeaders
    percent: float


@dataclass(frozen=True, slots=True)
class TableRow:
    """One table. ``hot`` is why all inserts go to one region, ``""`` if they do not. ``ways`` spread them."""

    table: TablePlacement
    stores: tuple[StoreShare, ...]
    skew: Skew | None
    hot: str
    ways: tuple[SpreadOption, ...]

    @property
    def is_noticeable(self) -> bool:
        return bool(self.skew and self.skew.is_noticeable)


@dataclass(frozen=True, slots=True)
class TidbPage:
    """A TiDB cluster, as the node ``instance`` sees it."""

    instance: str
    facts: TidbFacts
    rows: tuple[TableRow, ...]

    @property
    def kinds(self) -> dict[str, int]:
        """Return the number of processes of each kind."""
        return dict(Counter(node.kind for node in self.facts.nodes or ()))

    @property
    def stores(self) -> int | None:
        return self.facts.tikv_nodes

    @property
    def has_one_store(self) -> bool:
        """Whether no table can be uneven."""
        return self.stores == 1


def tidb_page(cluster: ClusterRow) -> TidbPage | None:
    """Return the section, ``None`` for another cluster, or before the first reading. No query."""
    known = [
        (row.facts.server.tidb, row.instance.name)
        for row in cluster.rows
        if row.is_tidb and row.facts and row.facts.server and row.facts.server.tidb
    ]
    read = [(found, name) for found, name in known if found.read_at]
    if not read:
        return None
    facts, name = max(read, key=lambda one: (one[0].placements is not None, one[0].read_at))
    return TidbPage(name, facts, tuple(_row(table, facts) for table in facts.placements or ()))


def _row(table: TablePlacement, facts: TidbFacts) -> TableRow:
    nodes, stores = facts.tikv_nodes or 0, table.stores or ()
    hot, skew = why_hot(table), skew_of(stores, facts.tikv_nodes)
    is_asked = is_advised(table) and (hot or (skew and skew.is_noticeable))
    return TableRow(
        table=table,
        stores=_shares(stores),
        skew=skew,
        hot=hot,
        ways=ways_for(table, tikv_nodes=nodes, release=facts.release) if is_asked else (),
    )


def _shares(stores: tuple[StoreLeaders, ...]) -> tuple[StoreShare, ...]:
    """Return the part of each store, the busiest first."""
    parts = [one.written_bytes for one in stores]
    parts = parts if any(parts) else [one.regions for one in stores]
    whole = sum(parts)
    found = [StoreShare(one, 100 * part / whole) for one, part in zip(stores, parts, strict=True) if whole]
    return tuple(sorted(found, key=lambda one: (-one.percent, one.leaders.store)))
