"""The TiDB cluster that takes the inserts of a load test, as it was planned."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TidbTarget:
    """The cluster that takes the inserts: its name, the address of its node, the user of the load, and its processes, as ``kind host:port``."""

    cluster: str
    address: str
    port: int
    user: str
    nodes: tuple[str, ...]
