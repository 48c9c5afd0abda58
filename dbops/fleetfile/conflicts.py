"""Find objects that share what must be unique, in the fleet after the change. Used for the file and the browser."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dbops.engine.phrases import phrase
from dbops.engine.states import Role
from dbops.fleetfile.rules import nested
from dbops.models.fleet import MOST_JUMPS

KINDS = {
    "host": phrase("host"),
    "cluster": phrase("cluster"),
    "instance": phrase("instance"),
    "schedule": phrase("schedule"),
}


@dataclass(frozen=True, slots=True)
class PlacedObject:
    """An object after the change.

    ``line`` is its line in the file; ``origin`` is the changed object, ``None`` for an unchanged one.
    """

    name: str
    line: int | None = None
    origin: Any = None

    @property
    def known_as(self) -> str:
        name = repr(self.name)
        return phrase("{name} (line {line})", name=name, line=self.line) if self.line else name


@dataclass(frozen=True, slots=True)
class PlacedHost(PlacedObject):
    ssh_address: str = ""
    ssh_port: int = 0
    work_dir: str = ""
    jump_host: str = ""
    certificate_name: str = ""


@dataclass(frozen=True, slots=True)
class PlacedInstance(PlacedObject):
    host: str = ""
    cluster: str = ""
    role: str = ""
    address: str = ""
    port: int = 0
    datadir: str = ""


@dataclass(frozen=True, slots=True)
class InventoryConflict:
    """A reason against writing ``subject``, because of its ``field``."""

    subject: PlacedObject
    field: str
    text: str


One = TypeVar("One", bound=PlacedObject)


def name_conflicts(ones: Iterable[One], kind: str) -> Iterator[InventoryConflict]:
    """Find duplicate names, ignoring case: some databases ignore it, and people confuse such names."""
    for one, other in _repeated((item.name.casefold(), item) for item in ones if item.name):
        yield InventoryConflict(
            one, "name", phrase("the name is used by {kind} {name}", kind=KINDS[kind], name=other.known_as)
        )


def host_conflicts(hosts: Sequence[PlacedHost]) -> Iterator[InventoryConflict]:
    """Find two hosts with the same SSH address and port, or the same name in their certificates: each could pass for the other."""
    keyed = (((item.ssh_address.casefold(), item.ssh_port), item) for item in hosts if item.ssh_address)
    for one, other in _repeated(keyed):
        yield InventoryConflict(
            one, "ssh_address", phrase("this SSH address and port belong to host {name}", name=other.known_as)
        )
    certified = ((item.certificate_name, item) for item in hosts if item.certificate_name)
    for one, other in _repeated(certified):
        yield InventoryConflict(
            one, "certificate_name", phrase("this certificate name belongs to host {name}", name=other.known_as)
        )


def no_host(name: str) -> str:
    """Return the problem of a name that is of no host."""
    return phrase("there is no host {name} in this file or in the inventory", name=repr(name))


def jump_conflicts(hosts: Iterable[PlacedHost]) -> Iterator[InventoryConflict]:
    """Find jump hosts that are not there, lead in a circle, or are too many.

    The subject is a changed host: the change may be to a jump host, and what it spoils the way of another host.
    """
    by_name = {host.name: host for host in hosts}
    for host in by_name.values():
        way = [host]
        while (name := way[-1].jump_host) and len(way) <= MOST_JUMPS + 1:
            if name not in by_name:
                yield InventoryConflict(way[-1], "jump_host", no_host(name))
                break
            way.append(by_name[name])
        if len(way) > MOST_JUMPS + 1 and (changed := [one for one in way if one.origin is not None]):
            names = " behind ".join(one.name for one in way)
            text = (
                phrase("the jump hosts lead in a circle: {names}", names=names)
                if way[-1] in way[:-1]
                else phrase("use at most {most} jump hosts: {names}", most=MOST_JUMPS, names=names)
            )
            yield InventoryConflict(changed[0], "jump_host", text)


def instance_conflicts(instances: list[PlacedInstance], hosts: dict[str, PlacedHost]) -> Iterator[InventoryConflict]:
    """Find servers at the same address, second primaries of a cluster, and nested directories."""
    addressed = (((item.address.casefold(), item.port), item) for item in instances if item.address and item.port)
    for one, other in _repeated(addressed):
        yield InventoryConflict(
            one, "address", phrase("this address and port belong to instance {name}", name=other.known_as)
        )
    primaries = ((item.cluster, item) for item in instances if item.role == Role.PRIMARY and item.cluster)
    for one, other in _repeated(primaries):
        yield InventoryConflict(
            one,
            "role",
            phrase(
                "the cluster {cluster} already has a primary: {name}", cluster=repr(one.cluster), name=other.known_as
            ),
        )
    yield from _kind_conflicts(instances)
    yield from _directory_conflicts(instances)
    for item in instances:
        host = hosts.get(item.host)
        if not (host and host.work_dir and item.datadir):
            continue
        if item.datadir == host.work_dir or nested(item.datadir, host.work_dir):
            text = phrase(
                "the data directory {datadir} and the work directory {work_dir} of host {host} overlap",
                datadir=item.datadir,
                work_dir=host.work_dir,
                host=repr(host.name),
            )
            yield (
                InventoryConflict(item, "datadir", text)
                if item.origin is not None
                else InventoryConflict(host, "work_dir", text)
            )


def _kind_conflicts(instances: Iterable[PlacedInstance]) -> Iterator[InventoryConflict]:
    """Find clusters with TiDB nodes and other servers: they replicate in no way that dbops knows."""
    kinds: dict[str, PlacedInstance] = {}
    for item in instances:
        if item.cluster and item.role:
            first = kinds.setdefault(item.cluster, item)
            if (first.role == Role.TIDB) != (item.role == Role.TIDB):
                text = phrase(
                    "a cluster has TiDB nodes only, or none: {name} of {cluster} has the role {role}",
                    name=first.known_as,
                    cluster=repr(item.cluster),
                    role=first.role,
                )
                yield InventoryConflict(item, "role", text)


def _directory_conflicts(instances: list[PlacedInstance]) -> Iterator[InventoryConflict]:
    on_hosts: dict[str, list[PlacedInstance]] = {}
    for item in instances:
        if not (item.host and item.datadir):
            continue
        for other in on_hosts.setdefault(item.host, []):
            if other.datadir == item.datadir:
                yield InventoryConflict(
                    item,
                    "datadir",
                    phrase(
                        "this data directory on {host} belongs to instance {name}",
                        host=repr(item.host),
                        name=other.known_as,
                    ),
                )
            elif nested(other.datadir, item.datadir):
                text = phrase(
                    "this data directory and {datadir} of instance {name} are nested",
                    datadir=other.datadir,
                    name=other.known_as,
                )
                yield InventoryConflict(item, "datadir", text)
        on_hosts[item.host].append(item)


def _repeated(keyed: Iterable[tuple[Hashable, One]]) -> Iterator[tuple[One, One]]:
    """Yield each later item with the first one of the same key."""
    first: dict[Hashable, One] = {}
    for key, item in keyed:
        if key in first:
            yield item, first[key]
        else:
            first[key] = item
