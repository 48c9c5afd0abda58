"""A TiDB cluster as one node sees it: nodes, sizes, and on which stores the regions of tables have their leaders."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class TidbNode:
    """A process of the cluster. ``kind`` is ``tidb``, ``tikv``, ``pd`` or ``tiflash``; ``address`` is ``host:port``."""

    kind: str
    address: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class StoreLeaders:
    """The regions of a table whose leader is on one store, and the bytes of their last report to PD. A leader takes all writes."""

    store: int
    regions: int
    written_bytes: int = 0
    read_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TablePlacement:
    """A table and its regions.

    ``bytes`` and ``rows`` are estimates of the statistics. ``sharding`` is as reported: ``NOT_SHARDED``, ``SHARD_BITS=4``,
    ``PK_AUTO_RANDOM_BITS=5``. ``is_clustered``: rows are in the order of the primary key. ``first_key_type`` is the type of its
    first column; ``counts_up``: that column is ``AUTO_INCREMENT``. ``unique_keys`` are the columns of the other unique keys.
    ``partition_method`` is ``""`` without partitions. ``definition`` is ``SHOW CREATE TABLE``, ``""`` if it was not read.
    ``stores`` is ``None`` if the regions were not read: ``problem`` says why.
    """

    schema: str
    table: str
    bytes: int = 0
    rows: int = 0
    sharding: str = ""
    is_clustered: bool = False
    primary_key: tuple[str, ...] = ()
    first_key_type: str = ""
    counts_up: bool = False
    unique_keys: tuple[tuple[str, ...], ...] = ()
    partition_method: str = ""
    partitions: int = 0
    definition: str = ""
    stores: tuple[StoreLeaders, ...] | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def regions(self) -> int | None:
        return None if self.stores is None else sum(one.regions for one in self.stores)


@dataclass(frozen=True, slots=True)
class TidbFacts:
    """A TiDB cluster as one of its nodes sees it. ``None``: not reported, or not in time.

    ``release`` is TiDB's own version. ``nodes`` are all processes of the cluster. ``store`` is ``tikv``, or ``unistore``
    for a node that keeps a test's data itself. ``user_schemas`` are some of those that are not TiDB's own or ``test``: none, and a load
    test may be possible. ``tables`` are user tables, ``placements`` those of the largest, read at ``read_at``.
    """

    release: str
    store: str = ""
    nodes: tuple[TidbNode, ...] | None = None
    user_schemas: tuple[str, ...] | None = None
    schemas: int | None = None
    tables: int | None = None
    data_bytes: int | None = None
    index_bytes: int | None = None
    placements: tuple[TablePlacement, ...] | None = None
    read_at: datetime | None = None

    @property
    def tikv_nodes(self) -> int | None:
        """Return the number of TiKV nodes, ``None`` if the cluster does not list its nodes."""
        return None if self.nodes is None else sum(node.kind == "tikv" for node in self.nodes)
