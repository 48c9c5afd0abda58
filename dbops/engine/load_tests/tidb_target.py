"""The TiDB cluster that takes the inserts of a load test, as it was planned."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TidbTarget:
    """The cluster: its name, and the address of its node.

    ``user`` is that of the load, ``nodes`` are all processes of the cluster, as ``kind host:port``, and ``table`` is the statement that
    makes the table of the inserts.
    """

    cluster: str
    address: str
    port: int
    user: str
    nodes: tuple[str, ...]
    table: str
