"""Read the listings of each kind of source."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from dbops.engine.inventory.listing import KNOWN, NAME, BadListing, Listing, listing_of, names_of
from dbops.engine.phrases import phrase

Entry = tuple[str, Mapping[str, object]]


class SourceKind(StrEnum):
    """What a source is. The value is a word in commands and URLs."""

    CSV = "csv"
    ANSIBLE = "ansible"
    ORCHESTRATOR = "orchestrator"
    REPLICATION_MANAGER = "replication-manager"

    @property
    def label(self) -> str:
        return {"csv": "CSV", "ansible": "Ansible"}.get(self.value, self.value)

    @property
    def is_document(self) -> bool:
        """Whether it is one document, which can be a file; the others are asked through their API."""
        return self in (SourceKind.CSV, SourceKind.ANSIBLE)


def read_document(kind: SourceKind, text: str) -> Listing:
    """Return the listing of a document, or of the joined answers of an API.

    Raises:
        BadListing: it is not one of this kind, or lists no server.
    """
    return READERS[kind](text.removeprefix("\ufeff"))


def read_csv(text: str) -> Listing:
    """Read a table with a header. ``name`` and ``address`` are required; the other columns are those of ``ListedServer``."""
    rows = csv.reader(
        io.StringIO(text, newline=""), strict=True, delimiter=";" if ";" in text.split("\n", 1)[0] else ","
    )
    try:
        header = [cell.strip().lower() for cell in next(rows, [])]
        if unknown := set(header) - KNOWN:
            raise BadListing(
                phrase(
                    "{number} columns are unknown; known are {known}",
                    number=len(unknown),
                    known=", ".join(sorted(KNOWN)),
                )
            )
        if len(set(header)) < len(header) or not {"name", "address"} <= set(header):
            raise BadListing(phrase("the header has no name or address, or a column twice"))
        return listing_of(_table(header, rows))
    except csv.Error as error:
        raise BadListing(phrase("line {line} is not CSV", line=rows.line_num)) from error


def _table(header: list[str], rows: Iterator[list[str]]) -> Iterator[Entry]:
    for number, cells in enumerate(rows, start=2):
        if any(cell.strip() for cell in cells):
            yield f"row {number}", dict(zip(header, cells, strict=False)) if len(cells) <= len(header) else {}


def read_ansible(text: str) -> Listing:
    """Read the output of ``ansible-inventory --list``. Hosts with the variable ``dbops_cluster`` count.

    Source: Ansible, "Developing dynamic inventory": ``_meta.hostvars`` has the variables of each host.
    """
    content = _json(text)
    meta = content.get("_meta") if isinstance(content, dict) else None
    hosts = meta.get("hostvars") if isinstance(meta, dict) else None
    if not isinstance(hosts, dict):
        raise BadListing(phrase("it is not the output of ansible-inventory --list"))
    return listing_of(entry for name, found in hosts.items() if isinstance(found, dict) for entry in _host(name, found))


def _host(name: str, found: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield the servers of an Ansible host: itself, or one for each item of ``dbops_instances``."""
    values = {key: found[f"dbops_{key}"] for key in KNOWN if f"dbops_{key}" in found}
    if not values.get("cluster"):
        return
    address = found.get("ansible_host", name)
    shared = {
        "name": name,
        "address": address,
        "ssh_address": address,
        "ssh_port": found.get("ansible_port"),
        "ssh_user": found.get("ansible_user"),
        "port": found.get("mysql_port", found.get("mariadb_port")),
        "datadir": found.get("mysql_datadir", found.get("mariadb_datadir")),
        **values,
    }
    instances = found.get("dbops_instances")
    if not isinstance(instances, list):
        yield f"host {name[:63]!r}", shared
        return
    for number, own in enumerate(instances, start=1):
        place = f"host {name[:63]!r}, instance {number}"
        yield place, {**shared, **{key: own[key] for key in own if key in KNOWN}} if isinstance(own, dict) else {}


def read_orchestrator(text: str) -> Listing:
    """Read the answer of orchestrator's ``/api/all-instances``.

    Source: openark/orchestrator, ``go/inst/instance.go``. A server without a source is the primary; the others are replicas.
    """
    content = _json(text)
    if not isinstance(content, list):
        raise BadListing(phrase("it is not the answer of /api/all-instances"))
    keys = [item.get("Key") for item in content if isinstance(item, dict)]
    names = names_of((str(key.get("Hostname")), str(key.get("Port"))) for key in keys if isinstance(key, dict))
    return listing_of(
        (_of_orchestrator(number, item, names) for number, item in enumerate(content, 1)), has_own_name=False
    )


def _of_orchestrator(number: int, item: Any, names: Mapping[tuple[str, str], str]) -> Entry:
    place = f"instance {number}"
    key, source = (item.get("Key"), item.get("MasterKey")) if isinstance(item, dict) else (None, None)
    if not isinstance(key, dict):
        return place, {}
    address, port = str(key.get("Hostname")), key.get("Port")
    is_replica = isinstance(source, dict) and bool(source.get("Hostname"))
    # a co-primary has a source, too
    role = "" if item.get("IsCoMaster") else "replica" if is_replica else "primary"
    cluster = _cluster(item.get("SuggestedClusterAlias")) or _cluster(item.get("ClusterName"))
    return place, {
        "name": names[address, str(port)],
        "address": address,
        "port": port,
        "cluster": cluster,
        "role": role,
    }


def read_replication_manager(text: str) -> Listing:
    """Read the servers of replication-manager: an object with the answer of ``/api/clusters/NAME/topology/servers`` of each cluster.

    Source: signal18/replication-manager, ``cluster/srv.go``.
    """
    content = _json(text)
    if not isinstance(content, dict) or not all(isinstance(rows, list) for rows in content.values()):
        raise BadListing(phrase("it is not the servers of clusters"))
    found = [(cluster, item) for cluster, rows in content.items() for item in rows if isinstance(item, dict)]
    names = names_of((str(item.get("host")), str(item.get("port"))) for _, item in found)
    entries = (_of_replication_manager(number, cluster, item, names) for number, (cluster, item) in enumerate(found, 1))
    return listing_of(entries, has_own_name=False)


#: States that say what a server's role is.
STATES = {"master": "primary", "slave": "replica", "slavelate": "replica", "slaveerr": "replica"}


def _of_replication_manager(
    number: int, cluster: str, item: Mapping[str, Any], names: Mapping[tuple[str, str], str]
) -> Entry:
    address, port = str(item.get("host")), item.get("port")
    return f"server {number}", {
        "name": names[address, str(port)],
        "address": address,
        "port": port,
        "cluster": _cluster(cluster),
        "role": STATES.get(str(item.get("state")).lower(), ""),
    }


def _cluster(value: object) -> str:
    """Return a cluster's name; empty for one that the inventory cannot have. Orchestrator's default is ``host:3306``."""
    text = str(value or "").replace(":", "-")
    return text if NAME.fullmatch(text) else ""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadListing(phrase("it is not JSON")) from error


READERS: dict[SourceKind, Callable[[str], Listing]] = {
    SourceKind.CSV: read_csv,
    SourceKind.ANSIBLE: read_ansible,
    SourceKind.ORCHESTRATOR: read_orchestrator,
    SourceKind.REPLICATION_MANAGER: read_replication_manager,
}
