"""Build a fleet file from a discovery's proposal and a person's input."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from dbops.engine.inventory.listing import ListedServer
from dbops.fleetfile.read import VERSION
from dbops.fleetfile.write import cluster_content, host_content
from dbops.models import Cluster, Host
from dbops.models.fleet import SOCKET_ACCOUNTS

HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class ProposedAccount:
    """An account. Without a user, it is omitted; without a password, the stored one is kept."""

    user: str
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ProposedInstance:
    """One server with all values for the file. The SSH fields describe a host that is not in the inventory yet."""

    name: str
    role: str
    address: str
    port: int
    datadir: str
    host: str
    ssh_address: str
    ssh_port: int
    ssh_user: str
    ssh_key_file: str
    defaults_file: str
    systemd_unit: str = ""
    start: str = ""
    stop: str = ""


def proposal_text(
    *,
    cluster: str,
    write_addresses: Sequence[str],
    accounts: Mapping[str, ProposedAccount],
    instances: Sequence[ProposedInstance],
    show_secrets: bool,
) -> str:
    """Return a fleet file with these instances, their hosts and their cluster.

    It contains stored clusters and hosts with all their values, because omitted values would be reset to defaults.

    Args:
        accounts: by ``admin``, ``local``, ``replication``, ``backup``; ``local`` and ``backup`` without a password use the socket.
        show_secrets: if false, replace passwords, for a page.
    """
    stored = {row.name: row for row in Host.objects.filter(name__in={item.host for item in instances})}
    content = {
        "version": VERSION,
        "hosts": list(_hosts(instances, stored)),
        "clusters": [_cluster(cluster, write_addresses, accounts, instances, show_secrets)],
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)


def _hosts(instances: Iterable[ProposedInstance], stored: Mapping[str, Host]) -> Iterable[dict[str, Any]]:
    seen = set()
    for item in instances:
        if item.host in seen:
            continue
        seen.add(item.host)
        if item.host in stored:
            yield host_content(stored[item.host])
            continue
        ssh: dict[str, Any] = {"address": item.ssh_address, "port": item.ssh_port, "user": item.ssh_user}
        if item.ssh_key_file:
            ssh["key_file"] = item.ssh_key_file
        yield {"name": item.host, "ssh": ssh}


def _cluster(
    name: str,
    write_addresses: Sequence[str],
    accounts: Mapping[str, ProposedAccount],
    instances: Iterable[ProposedInstance],
    show_secrets: bool,
) -> dict[str, Any]:
    if row := Cluster.objects.filter(name=name).first():
        return {**cluster_content(row), "instances": [_instance(item) for item in instances]}
    written: dict[str, Any] = {}
    for word, account in accounts.items():
        if account.user:
            written[word] = {"user": account.user}
            if account.password:
                written[word]["password"] = account.password if show_secrets else HIDDEN
            elif word in SOCKET_ACCOUNTS:
                written[word]["socket"] = True
    found: dict[str, Any] = {"name": name} if name else {}
    if write_addresses:
        found["write_addresses"] = list(write_addresses)
    if written:
        found["accounts"] = written
    return {**found, "instances": [_instance(item) for item in instances]}


def _instance(item: ProposedInstance) -> dict[str, Any]:
    """Return an instance's values. Unknown ones are left out: the import then names each that it needs, and guesses none."""
    service = {"systemd_unit": item.systemd_unit} if item.systemd_unit else {"start": item.start, "stop": item.stop}
    values = {
        "name": item.name,
        "role": item.role,
        "host": item.host,
        "address": item.address,
        "port": item.port,
        "datadir": item.datadir,
        "defaults_file": item.defaults_file,
        "service": {word: command for word, command in service.items() if command},
    }
    return {name: value for name, value in values.items() if value}


def listed_text(servers: Sequence[ListedServer], *, ssh_user: str = "", ssh_key_file: str = "") -> str:
    """Return a fleet file with servers of an inventory source. What the source does not say is left out.

    Clusters and hosts in the inventory are written with all their values, because the import resets omitted ones.

    Args:
        ssh_user, ssh_key_file: for hosts of which the source does not say it.
    """
    instances = listed_instances(servers, ssh_user=ssh_user, ssh_key_file=ssh_key_file)
    stored = {row.name: row for row in Host.objects.filter(name__in={item.host for item in instances})}
    clusters: dict[str, list[ProposedInstance]] = {}
    for server, item in zip(servers, instances, strict=True):
        clusters.setdefault(server.cluster, []).append(item)
    content = {
        "version": VERSION,
        "hosts": list(_hosts(instances, stored)),
        "clusters": [_cluster(name, [], {}, items, show_secrets=False) for name, items in clusters.items()],
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)


def listed_instances(
    servers: Sequence[ListedServer], *, ssh_user: str = "", ssh_key_file: str = ""
) -> list[ProposedInstance]:
    """Return servers of an inventory source as instances. Those with one SSH address share a host.

    Args:
        ssh_user, ssh_key_file: for hosts of which the source does not say it.
    """
    hosts = {row.ssh_address.casefold(): row.name for row in Host.objects.all()}
    names = set(hosts.values())
    found = []
    for server in servers:
        address = (server.ssh_address or server.address).casefold()
        if address not in hosts:
            hosts[address] = server.name if server.name not in names else f"{server.name[:58]}-host"
            names.add(hosts[address])
        found.append(
            ProposedInstance(
                name=server.name,
                role=server.role.value if server.role else "",
                address=server.address,
                port=server.port,
                datadir=server.datadir,
                host=hosts[address],
                ssh_address=server.ssh_address or server.address,
                ssh_port=server.ssh_port,
                ssh_user=server.ssh_user or ssh_user or "root",
                ssh_key_file=ssh_key_file,
                defaults_file=server.defaults_file,
                systemd_unit=server.systemd_unit,
            )
        )
    return found
