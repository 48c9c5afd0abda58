"""Discovered servers and their replication connections."""

from dataclasses import dataclass
from datetime import datetime

from dbops.engine.facts.instance import ProbeProblem
from dbops.engine.facts.server_kind import ServerKind

Address = tuple[str, int]

#: Reported by a server, these mean its own machine, not ours.
OWN_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class ReplicationLink:
    """One replication connection upwards. ``source`` is the key of the source's node."""

    channel: str
    host: str
    port: int
    source: str
    is_running: bool
    lag_seconds: float | None = None
    uses_gtid: bool = False
    error: str = ""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Silent:
    """A replica known only to its source: it gave no address, or the address does not lead to it.

    ``host`` is the host that it connects from, ``port`` is as it reports; either may be unknown, and is then not guessed.
    """

    host: str = ""
    port: int | None = None
    server_id: int | None = None

    @property
    def description(self) -> str:
        known = [f"server id {self.server_id}"] if self.server_id is not None else []
        known += [f"connected from {self.host}"] if self.host else []
        known += [f"reported port {self.port}"] if self.port else []
        return ", ".join(known) or "unknown"


@dataclass(frozen=True, slots=True)
class Node:
    """One server, or an address that leads to one and could not be read (``problem`` has the reason).

    ``key`` is the same for one server under all of its addresses. ``attached`` counts the replicas that the server itself
    reports. ``backups`` describes a running backup. ``links`` and ``attached`` are ``None`` if the account may not see them;
    ``unread`` has the reason in words.
    """

    key: str
    addresses: tuple[Address, ...]
    flavor: str = ""
    version: str = ""
    server_id: int | None = None
    server_uuid: str = ""
    hostname: str = ""
    port: int | None = None
    datadir: str = ""
    read_only: bool | None = None
    log_bin: bool | None = None
    gtid: str = ""
    links: tuple[ReplicationLink, ...] | None = None
    attached: int | None = None
    silent: tuple[Silent, ...] = ()
    backups: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    problem: ProbeProblem | None = None
    kind: ServerKind | None = None

    @property
    def is_read(self) -> bool:
        return self.problem is None

    @property
    def address(self) -> str:
        host, port = self.addresses[0]
        return f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The result of one discovery. ``left_out`` names the limit that ended it early, and the servers that were not read."""

    nodes: tuple[Node, ...]
    seconds: float = 0.0
    left_out: tuple[str, ...] = ()
    at: datetime | None = None


def identity(*, server_uuid: str, server_id: int, hostname: str, port: int, datadir: str) -> str:
    """Return a server's identity, the same for all of its addresses.

    A uuid alone is not enough: a server copied with its ``auto.cnf`` has that of its original. MariaDB has none.
    """
    return "|".join((server_uuid, str(server_id), hostname, str(port), datadir.rstrip("/")))


def address_key(host: str, port: int) -> str:
    """Return the key of an address without a response."""
    return f"at|{host.casefold()}|{port}"


def seen_from(server: str, host: str) -> str:
    """Return the address that ``host`` means on the server at ``server``."""
    return server if host.casefold() in OWN_MACHINE else host
