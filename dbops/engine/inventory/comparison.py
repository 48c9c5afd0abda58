"""Compare what a source lists with the inventory."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from dbops.engine.inventory.listing import ListedServer, Listing
from dbops.engine.states import Role


class DifferenceCode(StrEnum):
    """How a source differs from the inventory."""

    NOT_IN_INVENTORY = "not_in_inventory"
    NOT_LISTED = "not_listed"
    ADDRESS = "address"
    ROLE = "role"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class KnownServer:
    """An instance of the inventory. ``addresses``: all under which it is known, besides ``address``."""

    name: str
    cluster: str
    role: Role
    address: str
    port: int
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListingDifference:
    """One difference. ``listed`` and ``known`` are the two values; a person who ignores it ignores these values alone."""

    code: DifferenceCode
    server: str
    listed: str = ""
    known: str = ""


@dataclass(frozen=True, slots=True)
class InventoryComparison:
    """The differences, and the servers that the inventory lacks, with the inventory's names of clusters."""

    differences: tuple[ListingDifference, ...]
    new: tuple[ListedServer, ...]


def compare(listing: Listing, known: Sequence[KnownServer]) -> InventoryComparison:
    """Return how a listing differs from the inventory.

    A server is found by its address and port, then by the name that the source gives it. Clusters of a source are those of the inventory
    that most of their servers are in, whatever they are called. An instance is missing in a source only if its cluster is listed there.
    """
    pairs = _pairs(listing.servers, known)
    clusters = _clusters(listing.servers, pairs)
    found: list[ListingDifference] = []
    new: list[ListedServer] = []
    for server in listing.servers:
        match = pairs.get(server)
        if match is None:
            new.append(replace(server, cluster=clusters.get(server.cluster, server.cluster)))
            found.append(ListingDifference(DifferenceCode.NOT_IN_INVENTORY, server.name, listed=server.place))
        else:
            found += _of_pair(server, match, clusters)
    matched = {match.name for match in pairs.values()}
    listed_clusters = {name for name in clusters.values() if name} | {server.cluster for server in listing.servers}
    for one in known:
        if one.name not in matched and one.cluster in listed_clusters:
            found.append(ListingDifference(DifferenceCode.NOT_LISTED, one.name, known=f"{one.address}:{one.port}"))
    return InventoryComparison(tuple(found), tuple(new))


def _pairs(listed: Iterable[ListedServer], known: Sequence[KnownServer]) -> dict[ListedServer, KnownServer]:
    places: dict[tuple[str, int], KnownServer] = {}
    for one in known:
        for address in one.addresses:
            places.setdefault((address.casefold(), one.port), one)
    # what a person entered as the server's address counts more than an address of its host
    places |= {(one.address.casefold(), one.port): one for one in known}
    names = {one.name.casefold(): one for one in known}
    pairs: dict[ListedServer, KnownServer] = {}
    for server in listed:
        if match := places.get((server.address.casefold(), server.port)):
            pairs[server] = match
    taken = {match.name for match in pairs.values()}
    for server in listed:
        match = names.get(server.name.casefold()) if server.has_own_name and server not in pairs else None
        if match and match.name not in taken:
            pairs[server] = match
    return pairs


def _clusters(listed: Iterable[ListedServer], pairs: Mapping[ListedServer, KnownServer]) -> dict[str, str]:
    """Return the inventory's cluster of each cluster of the source."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for server in listed:
        if server.cluster and server in pairs:
            votes[server.cluster][pairs[server].cluster] += 1
    return {
        name: name if count[name] == max(count.values()) else count.most_common(1)[0][0]
        for name, count in votes.items()
    }


def _of_pair(server: ListedServer, known: KnownServer, clusters: Mapping[str, str]) -> Iterable[ListingDifference]:
    all_addresses = {known.address.casefold(), *(one.casefold() for one in known.addresses)}
    if server.address.casefold() not in all_addresses or server.port != known.port:
        known_place = f"{known.address}:{known.port}"
        yield ListingDifference(DifferenceCode.ADDRESS, known.name, server.place, known_place)
    if server.role and _is_other_role(server.role, known.role):
        yield ListingDifference(DifferenceCode.ROLE, known.name, server.role, known.role)
    cluster = clusters.get(server.cluster, "")
    if cluster and cluster != known.cluster:
        yield ListingDifference(DifferenceCode.CLUSTER, known.name, cluster, known.cluster)


def _is_other_role(listed: Role, known: Role) -> bool:
    """Whether roles differ. Most sources do not know backup instances, and list them as replicas."""
    return listed != known and not (listed is Role.REPLICA and known is Role.BACKUP)
