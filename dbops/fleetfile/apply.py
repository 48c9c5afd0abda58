"""Write a checked fleet file into the inventory."""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError

from dbops.engine.states import Role
from dbops.fleetfile.document import Errors
from dbops.fleetfile.read import FileEntry, FleetFile, HostEntry, InstanceEntry
from dbops.fleetfile.store import ImportReport, Item, Row, store
from dbops.fleetfile.stored import StoredInventory, differences
from dbops.models import BackupSchedule, Cluster, Host, Instance

UNIQUE = frozenset({"host", "datadir", "address", "port", "role", "cluster"})
FREED = ("role", "address", "datadir")


def apply(fleet: FleetFile, stored: StoredInventory, errors: Errors, *, actor: str) -> ImportReport:
    """Create or update every object of a file that passed ``check``. Call in a transaction.

    Errors of the models go into ``errors``; the caller must then roll back.
    """
    items: list[Item] = []
    hosts: dict[str, Host] = dict(stored.hosts)
    clusters: dict[str, Cluster] = dict(stored.clusters)

    def write(entry: FileEntry, row: Row | None, model: type[Row], values: dict[str, Any]) -> Row | None:
        try:
            written, item = store(row, model, values, actor=actor, rewrite=FREED if model is Instance else ())
        except ValidationError as error:
            for name, messages in error.message_dict.items():
                errors.add(entry.at(name), " ".join(messages))
            return None
        items.append(item)
        return written

    _free_ways(fleet, stored)
    for entry in _jump_hosts_first(fleet.hosts):
        values = {**_with_one_key(entry.values), "jump_host": hosts.get(entry.jump_host)}
        if written := write(entry, stored.hosts.get(entry.name), Host, values):
            hosts[entry.name] = written
    places = {entry.name: number for number, entry in enumerate(fleet.hosts)}
    items.sort(key=lambda item: places[item.name])
    for group in fleet.clusters:
        if cluster := write(group, stored.clusters.get(group.name), Cluster, group.values):
            clusters[group.name] = cluster
    if errors:
        return ImportReport(tuple(items))
    todo = [(entry, _instance_values(entry, hosts, clusters)) for entry in fleet.instances]
    _make_room([(stored.instances.get(entry.name), values) for entry, values in todo])
    instances: dict[str, Instance] = dict(stored.instances)
    for instance, values in todo:
        if placed := write(instance, stored.instances.get(instance.name), Instance, values):
            instances[instance.name] = placed
    if errors:
        return ImportReport(tuple(items))
    for schedule in fleet.schedules:
        values = {**schedule.values, "instance": instances[schedule.instance]}
        write(schedule, stored.schedules.get(schedule.name), BackupSchedule, values)
    return ImportReport(tuple(items))


def _jump_hosts_first(entries: Sequence[HostEntry]) -> list[HostEntry]:
    """Return the hosts so that each comes after its jump host. The check found no circle."""
    by_name = {entry.name: entry for entry in entries}

    def jumps(entry: HostEntry) -> int:
        return 1 + jumps(by_name[entry.jump_host]) if entry.jump_host in by_name else 0

    return sorted(entries, key=jumps)


def _free_ways(fleet: FleetFile, stored: StoredInventory) -> None:
    """Clear jump hosts that will change, so that two hosts can swap. Only this transaction sees it."""
    for entry in fleet.hosts:
        row = stored.hosts.get(entry.name)
        if row and row.jump_host and row.jump_host.name != entry.jump_host:
            Host.objects.filter(pk=row.pk).update(jump_host=None)


def _with_one_key(values: dict[str, Any]) -> dict[str, Any]:
    """Clear a stored key if a key file is given, and the other way round."""
    if "ssh_private_key" in values:
        return {**values, "ssh_key_file": ""}
    if "ssh_key_file" in values:
        return {**values, "ssh_private_key": ""}
    return values


def _instance_values(entry: InstanceEntry, hosts: dict[str, Host], clusters: dict[str, Cluster]) -> dict[str, Any]:
    return {**entry.values, "host": hosts[entry.host], "cluster": clusters[entry.cluster]}


def _make_room(todo: list[tuple[Instance | None, dict[str, Any]]]) -> None:
    """Clear unique columns before filling them, so that instances can swap places, addresses or roles in one file.

    Only this transaction sees the temporary values.
    """
    for row, values in todo:
        if row and UNIQUE.intersection(differences(row, Instance, values)):
            Instance.objects.filter(pk=row.pk).update(
                role=Role.REPLICA, address=f"moving-{row.pk}", datadir=f"/moving/{row.pk}"
            )
