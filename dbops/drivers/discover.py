"""Discover servers by following replication from one address, with read-only SQL."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any

from dbops.drivers.probe_kind import read_kind
from dbops.engine.errors import DbopsError
from dbops.engine.facts.instance import ProbeProblem
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.base import Flavor
from dbops.engine.flavors.server_kind import KIND_VARIABLES
from dbops.engine.flavors.variables import number_of, text_of, truth_of
from dbops.engine.ports import Database
from dbops.engine.topology.nodes import (
    Address,
    DiscoveryResult,
    Node,
    ReplicationLink,
    Silent,
    address_key,
    identity,
    seen_from,
)

THREADS = 8
VARIABLES = (
    "server_id",
    "server_uuid",
    "hostname",
    "port",
    "datadir",
    "read_only",
    "log_bin",
    "gtid_executed",
    "gtid_current_pos",
    *KIND_VARIABLES,
)
#: Signs of a dump or physical backup in a process list.
BACKUP_WORDS = {
    "SELECT /*!40001 SQL_NO_CACHE */": "a dump reads tables",
    "FLUSH TABLES WITH READ LOCK": "a backup locks tables",
    "BACKUP STAGE": "mariadb-backup runs its stages",
    "LOCK INSTANCE FOR BACKUP": "a backup holds the instance's backup lock",
    "LOCK TABLES FOR BACKUP": "a backup holds the backup lock",
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a discovery: servers, addresses and total seconds. ``open_database`` limits the time per address."""

    servers: int = 64
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class NodeReading:
    """One server's reading: the node without the keys of its sources, and the next addresses."""

    node: Node
    sources: tuple[tuple[Address, ReplicationLink], ...] = ()
    replicas: tuple[tuple[Address, int], ...] = ()
    silent: tuple[Silent, ...] = ()


@dataclass(slots=True)
class _Walk:
    """State of a discovery: ``keys`` by visited address, and ``readings`` in the order of discovery."""

    keys: dict[Address, str] = field(default_factory=dict)
    readings: dict[str, NodeReading] = field(default_factory=dict)
    waiting: list[Address] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def want(self, address: Address) -> None:
        if address not in self.keys and address not in self.waiting:
            self.waiting.append(address)

    def take(self, address: Address, reading: NodeReading) -> None:
        key = reading.node.key
        self.keys[address] = key
        if known := self.readings.get(key):
            addresses = (*known.node.addresses, address)
            self.readings[key] = replace(known, node=replace(known.node, addresses=addresses))
            return
        self.readings[key] = reading
        for place in [place for place, _ in reading.sources] + [place for place, _ in reading.replicas]:
            self.want(place)


def discover(
    start: Address, open_database: Callable[[str, int], Database], bounds: Bounds | None = None
) -> DiscoveryResult:
    """Return every server connected with the first one by replication, within the bounds and the account's rights.

    Args:
        start: the first address.
        open_database: opens a connection to an address; its timeouts limit the cost of a silent server.

    Does not raise for server errors: an address that cannot be read becomes a node with a problem.
    """
    bounds = bounds or Bounds()
    begun = time.monotonic()
    walk = _Walk(waiting=[start])
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="discover")
    try:
        while walk.waiting:
            left = bounds.seconds - (time.monotonic() - begun)
            room = bounds.servers - len(walk.keys)
            if left <= 0 or room <= 0:
                why = f"{bounds.servers} addresses" if room <= 0 else f"{bounds.seconds:.0f} s"
                walk.left_out = [f"{host}:{port} (limit reached: {why})" for host, port in walk.waiting]
                break
            wave, walk.waiting = walk.waiting[:room], walk.waiting[room:]
            _read_wave(walk, wave, pool, open_database, left)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return DiscoveryResult(
        nodes=tuple(_joined(walk)),
        seconds=time.monotonic() - begun,
        left_out=tuple(walk.left_out),
    )


def _read_wave(
    walk: _Walk,
    wave: list[Address],
    pool: ThreadPoolExecutor,
    open_database: Callable[[str, int], Database],
    left: float,
) -> None:
    running: dict[Address, Future[NodeReading]] = {
        address: pool.submit(read_node, *address, open_database) for address in wave
    }
    wait(running.values(), timeout=left)
    for address, future in running.items():
        if future.done():
            walk.take(address, future.result())
        else:
            walk.take(address, _unread(address, ProbeProblem("mysql.unreachable", "no answer in the remaining time")))


def _unread(address: Address, problem: ProbeProblem) -> NodeReading:
    return NodeReading(Node(key=address_key(*address), addresses=(address,), problem=problem))


def read_node(host: str, port: int, open_database: Callable[[str, int], Database]) -> NodeReading:
    """Read one server. ``unread`` lists what the account cannot see, which does not count as absent."""
    try:
        database = open_database(host, port)
        try:
            return _read(host, port, database)
        finally:
            database.close()
    except DbopsError as error:
        return _unread((host, port), ProbeProblem(error.code, error.cause or error.operation))


def _read(host: str, port: int, database: Database) -> NodeReading:
    first = database.query("SELECT VERSION() AS version, @@version_comment AS comment")[0]
    flavor = flavor_for(str(first["version"]), str(first["comment"]))
    places = ", ".join(["%s"] * len(VARIABLES))
    rows = database.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({places})", VARIABLES)
    values = {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}
    unread: list[str] = []
    status = _ask(database, flavor.show_replication, "where it replicates from", unread)
    hosts = _ask(database, flavor.show_replicas, "which replicas are attached", unread)
    processes = _ask(database, "SHOW FULL PROCESSLIST", "who is connected", unread)
    sources = _sources(host, flavor, status) if status is not None else ()
    replicas, silent = _replicas(host, hosts, processes)
    facts: dict[str, Any] = {
        "server_uuid": text_of(values, "server_uuid"),
        "server_id": number_of(values, "server_id"),
        "hostname": text_of(values, "hostname"),
        "port": number_of(values, "port"),
        "datadir": text_of(values, "datadir"),
    }
    dumps = [row for row in processes or () if _is_dump(row)]
    node = Node(
        key=identity(**facts),
        addresses=((host, port),),
        flavor=flavor.name,
        version=".".join(map(str, flavor.version)),
        kind=read_kind(database, values, flavor=flavor.name),
        read_only=text_of(values, "read_only").upper() not in ("", "OFF", "0"),
        log_bin=truth_of(values, "log_bin"),
        gtid="".join(text_of(values, "gtid_executed", "gtid_current_pos").split()),
        links=tuple(link for _, link in sources) if status is not None else None,
        attached=None if hosts is None and processes is None else max(len(hosts or ()), len(dumps)),
        backups=tuple(dict.fromkeys(_backups(processes or ()))),
        unread=tuple(unread),
        **facts,
    )
    return NodeReading(node, sources, replicas, silent)


def _ask(database: Database, sql: str, what: str, unread: list[str]) -> list[dict[str, Any]] | None:
    """Return the rows, ``None`` if the server refuses. Raises a lost connection: the server was not read."""
    try:
        return database.query(sql)
    except DbopsError as error:
        if error.code != "mysql.error":
            raise
        unread.append(f"The account cannot read {what}: {error.cause}")
        return None


def _sources(
    host: str, flavor: Flavor, rows: Iterable[Mapping[str, Any]]
) -> tuple[tuple[Address, ReplicationLink], ...]:
    found = []
    for row in rows:
        facts = flavor.parse_replication(row)
        place = (seen_from(host, facts.source_host), facts.source_port)
        link = ReplicationLink(
            channel=facts.channel,
            host=facts.source_host,
            port=facts.source_port,
            source="",
            is_running=facts.is_running,
            lag_seconds=facts.lag_seconds,
            uses_gtid=facts.uses_gtid,
            error=facts.last_io_error or facts.last_sql_error,
        )
        if facts.source_host:
            found.append((place, link))
    return tuple(found)


def _replicas(
    host: str, hosts: list[dict[str, Any]] | None, processes: list[dict[str, Any]] | None
) -> tuple[tuple[tuple[Address, int], ...], tuple[Silent, ...]]:
    """Return replicas that report their address, with server ids, and connections of those that do not.

    The latter have a client host but no port.
    """
    reported: list[tuple[Address, int]] = []
    silent: list[Silent] = []
    for row in hosts or ():
        lower = {name.lower(): value for name, value in row.items()}
        server_id, port = int(lower["server_id"]), int(lower.get("port") or 0)
        said = str(lower.get("host") or "")
        if said and port:
            reported.append(((seen_from(host, said), port), server_id))
        else:
            silent.append(Silent(said, port or None, server_id))
    dumps = [_client(str(row["Host"] or "")) for row in processes or () if _is_dump(row)]
    # Connections are indistinguishable: a replica is missing only if there are more connections than reported replicas.
    unnamed = len(dumps) - len(reported) - len(silent)
    known = {address[0] for address, _ in reported}
    rest = [seen_from(host, client) for client in dumps if seen_from(host, client) not in known]
    if unnamed > 0:
        silent += [Silent(client) for client in (rest or [seen_from(host, client) for client in dumps])[:unnamed]]
    elif len(rest) == len(silent) == 1:
        silent = [replace(silent[0], host=rest[0])]  # one of each: they are the same
    return tuple(reported), tuple(silent)


def _is_dump(row: Mapping[str, Any]) -> bool:
    return str(row.get("Command") or "").startswith("Binlog Dump")


def _client(place: str) -> str:
    """Return the host of a process list's ``host:port``."""
    host, colon, port = place.rpartition(":")
    return host if colon and port.isdigit() else place


def _backups(processes: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for row in processes:
        statement = " ".join(str(row.get("Info") or "").split()).upper()
        for words, meaning in BACKUP_WORDS.items():
            if statement.startswith(words):
                yield meaning


def _joined(walk: _Walk) -> Iterable[Node]:
    """Assign each connection the key of its node; leave out silent replicas found on another path."""
    found_ids: dict[str, set[int]] = {}
    joined: list[Node] = []
    reported = _reported_by_sources(walk)
    for reading in walk.readings.values():
        if not reading.node.is_read:
            joined.append(replace(reading.node, links=reported.get(reading.node.key)))
            continue
        links = tuple(
            replace(link, source=walk.keys.get(place, address_key(*place))) for place, link in reading.sources
        )
        for link in links:
            if reading.node.server_id is not None:
                found_ids.setdefault(link.source, set()).add(reading.node.server_id)
        joined.append(replace(reading.node, links=links if reading.node.links is not None else None))
    for node in joined:
        reading = walk.readings[node.key]
        there = found_ids.get(node.key, set())
        lost = [
            Silent(place[0], place[1], number) for place, number in reading.replicas if _is_lost(walk, place, number)
        ]
        silent = tuple(
            item for item in (*reading.silent, *lost) if item.server_id is None or item.server_id not in there
        )
        yield replace(node, silent=_without_named(silent, len(there), node.attached or 0))


def _reported_by_sources(walk: _Walk) -> dict[str, tuple[ReplicationLink, ...]]:
    """Return connections, reported by their sources, of addresses that could not be read: these are attached."""
    reported: dict[str, tuple[ReplicationLink, ...]] = {}
    for reading in walk.readings.values():
        host, port = reading.node.addresses[0]
        for place, _ in reading.replicas:
            if key := walk.keys.get(place):
                reported[key] = (
                    *reported.get(key, ()),
                    ReplicationLink("", host, port, reading.node.key, is_running=True),
                )
    return reported


def _is_lost(walk: _Walk, place: Address, server_id: int) -> bool:
    """Whether the address that a replica reported leads to a server with another id."""
    reading = walk.readings.get(walk.keys.get(place, ""))
    return reading is not None and reading.node.is_read and reading.node.server_id != server_id


def _without_named(silent: tuple[Silent, ...], found: int, attached: int) -> tuple[Silent, ...]:
    """Keep as many unnamed connections as there are more than discovered replicas."""
    named = [item for item in silent if item.server_id is not None]
    unnamed = [item for item in silent if item.server_id is None]
    return (*named, *unnamed[: max(0, attached - found - len(named))])
