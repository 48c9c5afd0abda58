"""Check a fleet file for conflicts within the file and with the inventory."""

from collections.abc import Mapping, Sequence
from typing import Any

from dbops.engine.phrases import phrase
from dbops.fleetfile import sshkeys
from dbops.fleetfile.conflicts import (
    InventoryConflict,
    PlacedHost,
    PlacedInstance,
    PlacedObject,
    host_conflicts,
    instance_conflicts,
    jump_conflicts,
    name_conflicts,
    no_host,
)
from dbops.fleetfile.document import Errors
from dbops.fleetfile.read import ClusterEntry, FileEntry, FleetFile, HostEntry, InstanceEntry, ScheduleEntry
from dbops.fleetfile.schedules import schedule_problems
from dbops.fleetfile.stored import StoredInventory, differences
from dbops.models import Cluster, Host, Instance
from dbops.models.fleet import ACCOUNTS
from dbops.models.secret import is_set


def check(fleet: FleetFile, stored: StoredInventory, errors: Errors, *, replace_host_keys: bool) -> None:
    """Add every error to ``errors``. Give instances without an address that of their host."""
    hosts, clusters = _by_name(fleet.hosts), _by_name(fleet.clusters)
    for host in fleet.hosts:
        _check_host(host, stored, errors, replace_host_keys)
    for cluster in fleet.clusters:
        _check_accounts(cluster, stored.clusters.get(cluster.name), errors)
        _check_restore_test_host(cluster, fleet, stored, errors)
    for instance in fleet.instances:
        _link(instance, hosts, stored, errors)
        _check_frozen(instance, stored, errors)
        _check_accounts(instance, stored.instances.get(instance.name), errors)
    for schedule in fleet.schedules:
        _check_schedule(schedule, fleet, stored, errors)
    _check_conflicts(fleet, stored, errors, clusters)


def _by_name(entries: Sequence[Any]) -> dict[str, Any]:
    return {entry.name: entry for entry in entries if entry.name}


def _check_host(entry: HostEntry, stored: StoredInventory, errors: Errors, replace_host_keys: bool) -> None:
    row = stored.hosts.get(entry.name)
    keys = {"ssh_private_key", "ssh_key_file"}
    has_key = bool(row and (row.ssh_key_file or is_set(row, "ssh_private_key")))
    if entry.name and not has_key and not keys & (entry.values.keys() | entry.broken):
        errors.add(entry.at("ssh_key_file"), phrase("a new host needs an SSH key: set key_file, key or key_vault"))
    if entry.foreign and not (row and row.ssh_key_file == entry.values["ssh_key_file"]):
        errors.add(entry.at("ssh_key_file"), entry.foreign)
    given = entry.values.get("host_key", "")
    if row and row.host_key and given and given != row.host_key and not replace_host_keys:
        errors.add(
            entry.at("host_key"),
            phrase(
                "another key is pinned for {host}: {pinned}; this one is {given}. Find out why the key changed, then accept it in "
                "the browser or import with --replace-host-keys",
                host=repr(entry.name),
                pinned=sshkeys.fingerprint_or_empty(row.host_key),
                given=sshkeys.fingerprint_or_empty(given),
            ),
        )
    changed = list(differences(row, Host, entry.values)) if row else []
    changed += ["jump_host"] if row and entry.jump_host != (row.jump_host.name if row.jump_host else "") else []
    if reason := stored.why_frozen(row, changed):
        errors.add(_first_spot(entry, changed), reason)


def _check_accounts(entry: FileEntry, row: Cluster | Instance | None, errors: Errors) -> None:
    for account in ACCOUNTS:
        user = entry.values.get(f"{account}_user")
        secret = f"{account}_password"
        if not user or secret in entry.values or secret in entry.broken:
            continue
        if row is None or getattr(row, f"{account}_user") != user:
            errors.add(entry.at(secret), phrase("the account {user} is new: set its password", user=repr(user)))


def _check_restore_test_host(entry: ClusterEntry, fleet: FleetFile, stored: StoredInventory, errors: Errors) -> None:
    chosen = entry.values.get("restore_test_host")
    if not chosen:
        return
    if chosen not in stored.hosts and chosen not in {host.name for host in fleet.hosts}:
        errors.add(entry.at("restore_test_host"), no_host(chosen))
        return
    # for instances in the file, the file takes precedence
    where = {name: row.host.name for name, row in stored.instances.items()} | {
        one.name: one.host for one in fleet.instances
    }
    if chosen not in where.values():
        text = phrase("{host} has no instance; dbops probes only hosts with instances", host=repr(chosen))
        errors.add(entry.at("restore_test_host"), text)


def _link(entry: InstanceEntry, hosts: Mapping[str, HostEntry], stored: StoredInventory, errors: Errors) -> None:
    """Find the host in the file or the inventory, and use its address as the default."""
    if not entry.host:
        return
    in_file, row = hosts.get(entry.host), stored.hosts.get(entry.host)
    if in_file is None and row is None:
        errors.add(entry.at("host"), no_host(entry.host))
    elif "address" not in entry.values and "address" not in entry.broken:
        address = in_file.values.get("ssh_address") if in_file else row.ssh_address if row else None
        if address:
            entry.values["address"] = address


def _check_frozen(entry: InstanceEntry, stored: StoredInventory, errors: Errors) -> None:
    row = stored.instances.get(entry.name)
    if row is None:
        return
    changed = list(differences(row, Instance, entry.values))
    changed += ["host"] if entry.host and entry.host != row.host.name else []
    changed += ["cluster"] if entry.cluster and entry.cluster != row.cluster.name else []
    if reason := stored.why_frozen(row, changed):
        errors.add(_first_spot(entry, changed), reason)


def _check_schedule(entry: ScheduleEntry, fleet: FleetFile, stored: StoredInventory, errors: Errors) -> None:
    row = stored.schedules.get(entry.name)
    if row and entry.instance and row.instance.name != entry.instance:
        taken = phrase("this schedule and its runs belong to {name}: use another name", name=repr(row.instance.name))
        errors.add(entry.at("name"), taken)
    of = next((item for item in fleet.instances if item.name == entry.instance), None)
    host = of.host if of else ""
    in_file = {item.name: item for item in fleet.instances}
    datadirs = {
        name: item.datadir for name, item in stored.instances.items() if item.host.name == host and name not in in_file
    }
    datadirs |= {
        name: item.values["datadir"] for name, item in in_file.items() if item.host == host and "datadir" in item.values
    }
    for field, text in schedule_problems(entry.values, datadirs, role=of.values.get("role", "") if of else ""):
        errors.add(entry.at(field), text)


def _first_spot(entry: FileEntry, names: Any) -> Any:
    return min((entry.at(name) for name in names), key=lambda spot: spot.line, default=entry.spot)


def _check_conflicts(
    fleet: FleetFile, stored: StoredInventory, errors: Errors, clusters: Mapping[str, ClusterEntry]
) -> None:
    hosts = stored.placed_hosts(without=[entry.name for entry in fleet.hosts])
    hosts += [_placed_host(entry) for entry in fleet.hosts]
    instances = stored.placed_instances(without=[entry.name for entry in fleet.instances])
    instances += [_placed_instance(entry) for entry in fleet.instances]
    groups = [PlacedObject(name) for name in stored.clusters if name not in clusters]
    groups += [PlacedObject(entry.name, entry.spot.line, entry) for entry in fleet.clusters]
    in_file = {entry.name for entry in fleet.schedules}
    schedules = [PlacedObject(name) for name in stored.schedules if name not in in_file]
    schedules += [PlacedObject(entry.name, entry.spot.line, entry) for entry in fleet.schedules]
    found: list[InventoryConflict] = [
        *name_conflicts(schedules, "schedule"),
        *name_conflicts(hosts, "host"),
        *name_conflicts(groups, "cluster"),
        *name_conflicts(instances, "instance"),
        *host_conflicts(hosts),
        *jump_conflicts(hosts),
        *instance_conflicts(instances, {host.name: host for host in hosts}),
    ]
    for conflict in found:
        if isinstance(entry := conflict.subject.origin, FileEntry):
            errors.add(entry.at(conflict.field), conflict.text)


def _placed_host(entry: HostEntry) -> PlacedHost:
    names = ("ssh_address", "ssh_port", "work_dir", "certificate_name")
    values = {name: entry.values[name] for name in names if name in entry.values}
    return PlacedHost(entry.name, entry.spot.line, entry, jump_host=entry.jump_host, **values)


def _placed_instance(entry: InstanceEntry) -> PlacedInstance:
    names = ("role", "address", "port", "datadir")
    values = {name: entry.values[name] for name in names if name in entry.values}
    return PlacedInstance(entry.name, entry.spot.line, entry, host=entry.host, cluster=entry.cluster, **values)
