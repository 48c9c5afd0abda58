"""Parse a fleet file into entries with model fields and their places in the file, without database access."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db.models import Model

from dbops.engine.phrases import phrase
from dbops.fleetfile import rules, sshkeys
from dbops.fleetfile.document import Errors, Section, Spot, read_document
from dbops.fleetfile.sources import PASSWORD_KEYS, either, read_password, read_path
from dbops.models import BackupSchedule, Cluster, Host, Instance
from dbops.models.fleet import ACCOUNTS, SOCKET_ACCOUNTS

VERSION = 1
Keys = Mapping[str, tuple[str, type]]
SSH_KEYS: Keys = {
    "address": ("ssh_address", str),
    "port": ("ssh_port", int),
    "user": ("ssh_user", str),
    "host_key": ("host_key", str),
    "certificate_name": ("certificate_name", str),
}
HOST_KEYS: Keys = {
    "name": ("name", str),
    "sudo": ("sudo", bool),
    "work_dir": ("work_dir", str),
    "authorized_keys_file": ("authorized_keys_file", str),
    "stream_address": ("stream_address", str),
}
CLUSTER_KEYS: Keys = {
    "name": ("name", str),
    "wanted_replicas": ("wanted_replicas", int),
    "needs_approval": ("needs_approval", bool),
    "approvals": ("approval_count", int),
    "only_approvers": ("approvers_only", bool),
    "ticket_pattern": ("ticket_pattern", str),
    "ticket_url": ("ticket_url", str),
    "redundancy_goal_seconds": ("redundancy_goal_seconds", int),
    "restore_test_host": ("restore_test_host", str),
    "tls_ca": ("tls_ca", str),
}
INSTANCE_KEYS: Keys = {
    "name": ("name", str),
    "role": ("role", str),
    "port": ("port", int),
    "datadir": ("datadir", str),
    "defaults_file": ("defaults_file", str),
    "os_user": ("os_user", str),
    "group_suffix": ("group_suffix", str),
    "replication_tls": ("replication_tls", str),
    "replication_tls_ca": ("replication_tls_ca", str),
    "replication_delay_seconds": ("replication_delay_seconds", int),
}
SERVICE_KEYS: Keys = {
    "systemd_unit": ("systemd_unit", str),
    "start": ("start_command", str),
    "stop": ("stop_command", str),
}
SCHEDULE_KEYS: Keys = {
    "name": ("name", str),
    "method": ("method", str),
    "run_by": ("run_by", str),
    "cron": ("cron", str),
    "time_zone": ("time_zone", str),
    "directory": ("directory", str),
    "keep_count": ("keep_count", int),
    "keep_days": ("keep_days", int),
    "expected_seconds": ("expected_seconds", int),
    "late_after_seconds": ("late_after_seconds", int),
    "enabled": ("is_enabled", bool),
}
# Without a value, these set no limit; omitted, they get their default.
MAY_BE_EMPTY = frozenset({"keep_count"})
FILE_KEYS = ("key", "key_file")
INSTANCE_SECTION = (*INSTANCE_KEYS, "host", "address", "service", "accounts", "backups")
# Omitted from the file, these keep the stored value; everything else gets its default.
KEPT = frozenset({"ssh_private_key", "ssh_key_file", "host_key"})
# The same for rules: an older file must not turn off approval.
KEPT_RULES = frozenset(rules.CLUSTER_RULES)


@dataclass(slots=True)
class FileEntry:
    """One object of the file: valid values by model field, and their places.

    ``broken`` lists fields with invalid values; they are already reported and cause no further errors.
    """

    spot: Spot
    values: dict[str, Any] = field(default_factory=dict, repr=False)
    spots: dict[str, Spot] = field(default_factory=dict, repr=False)
    broken: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return str(self.values.get("name", ""))

    def at(self, name: str) -> Spot:
        """Return the place of a field, or of the object if the field is not in the file."""
        return self.spots.get(name, self.spot)


@dataclass(slots=True)
class HostEntry(FileEntry):
    """A host. ``foreign``: why its key file, named in the browser, is not read: it is outside the directory for key files.

    ``jump_host`` is a name and not in ``values``.
    """

    foreign: str = ""
    jump_host: str = ""


@dataclass(slots=True)
class ClusterEntry(FileEntry):
    pass


@dataclass(slots=True)
class InstanceEntry(FileEntry):
    """An instance; ``host`` and ``cluster`` are names and not in ``values``."""

    host: str = ""
    cluster: str = ""


@dataclass(slots=True)
class ScheduleEntry(FileEntry):
    """A schedule; ``instance`` is a name and not in ``values``."""

    instance: str = ""


@dataclass(slots=True)
class FleetFile:
    hosts: list[HostEntry] = field(default_factory=list)
    clusters: list[ClusterEntry] = field(default_factory=list)
    instances: list[InstanceEntry] = field(default_factory=list)
    schedules: list[ScheduleEntry] = field(default_factory=list)


def read(text: str, base_dir: Path | None, errors: Errors) -> FleetFile:
    """Read and check the file without the database; add errors to ``errors``.

    Args:
        base_dir: directory for relative paths. ``None``: the text came from a browser and must not name password files
            or environment variables of the dashboard's machine.
    """
    fleet = FleetFile()
    top = read_document(text, ("version", "hosts", "clusters"), errors)
    if top is None:
        return fleet
    if "version" not in top:
        errors.add(top.spot, phrase("the file must start with 'version: 1'"))
    elif top.value("version", int) not in (VERSION, None):
        errors.add(top.at("version"), phrase("this dbops reads version {version}", version=VERSION))
    for section in top.sections("hosts", (*HOST_KEYS, "ssh")):
        fleet.hosts.append(_host(section, base_dir))
    for section in top.sections("clusters", (*CLUSTER_KEYS, "write_addresses", "accounts", "instances")):
        cluster = _cluster(section, base_dir)
        fleet.clusters.append(cluster)
        for item in section.sections("instances", INSTANCE_SECTION):
            instance = _instance(item, cluster.name)
            _accounts(instance, item, Instance, base_dir)
            fleet.instances.append(instance)
            for backup in item.sections("backups", SCHEDULE_KEYS):
                schedule = ScheduleEntry(backup.spot, instance=instance.name)
                _fill(schedule, backup, SCHEDULE_KEYS, BackupSchedule, required=("name", "method", "run_by", "cron"))
                fleet.schedules.append(schedule)
    return fleet


def _fill(entry: FileEntry, section: Section, keys: Keys, model: type[Model], required: Iterable[str] = ()) -> None:
    """Check each value of the section and store it in the entry; omitted values get the model's default."""
    for key, (name, kind) in keys.items():
        if name in MAY_BE_EMPTY and section.is_empty(key):
            entry.spots[name], entry.values[name] = section.at(key), None
        elif key in section:
            entry.spots[name] = section.at(key)
            value = section.value(key, kind)
            if value is not None and _accept(section, key, name, value, model):
                entry.values[name] = value
            else:
                entry.broken.add(name)
        elif key in required:
            _is_missing(section, key)
        elif name not in KEPT | KEPT_RULES:
            entry.values[name] = _default(model, name)


def _is_missing(section: Section, key: str) -> None:
    section.errors.add(section.spot, phrase("{key} is missing", key=repr(key)))


def _default(model: type[Model], name: str) -> Any:
    return model._meta.get_field(name).get_default()  # type: ignore[union-attr]


def _accept(section: Section, key: str, name: str, value: Any, model: type[Model]) -> bool:
    problem = rules.field_problem(model, name, value)
    if not problem and name in KEPT and not value:
        problem = phrase("this is empty: omit the key to keep the stored value")
    if problem:
        section.errors.add(section.at(key), problem)
    return not problem


def _host(section: Section, base_dir: Path | None) -> HostEntry:
    entry = HostEntry(section.spot)
    _fill(entry, section, HOST_KEYS, Host, required=("name",))
    ssh = section.section("ssh", (*SSH_KEYS, *FILE_KEYS, "key_vault", "jump_host"))
    if ssh is None:
        if "ssh" not in section:
            _is_missing(section, "ssh")
        return entry
    _fill(entry, ssh, SSH_KEYS, Host, required=("address",))
    _read_keys(entry, ssh, base_dir)
    entry.spots["jump_host"] = ssh.at("jump_host")
    entry.jump_host = ssh.value("jump_host", str) or ""
    given = [key for key in ("key", "key_file", "key_vault") if key in ssh]
    for key in given[1:]:
        ssh.errors.add(ssh.at(key), either(given[0], key))
    if "host_key" in entry.values:
        entry.values["host_key"] = sshkeys.host_key_line(entry.values["host_key"])
    return entry


def _read_keys(entry: HostEntry, ssh: Section, base_dir: Path | None) -> None:
    """Read the private key, or the path of its file, which can be relative to the fleet file."""
    prepare: dict[str, tuple[str, Callable[[str], str]]] = {
        "key": ("ssh_private_key", sshkeys.tidy_private_key),
        "key_file": ("ssh_key_file", lambda name: os.path.normpath(base_dir / name) if base_dir and name else name),
    }
    for key, (name, prepared) in prepare.items():
        text = ssh.value(key, str)
        entry.spots[name] = ssh.at(key)
        if key == "key_file" and text and base_dir is None and (problem := rules.key_file_outside(text)):
            entry.values[name], entry.foreign = text, problem
        elif text is not None and _accept(ssh, key, name, prepared(text), Host):
            entry.values[name] = prepared(text)
        elif key in ssh:
            entry.broken.add(name)
    if path := ssh.value("key_vault", str):
        entry.spots["ssh_private_key"] = ssh.at("key_vault")
        if found := read_path(ssh, "key_vault", path):
            entry.values["ssh_private_key"] = found
        else:
            entry.broken.add("ssh_private_key")


def _cluster(section: Section, base_dir: Path | None) -> ClusterEntry:
    entry = ClusterEntry(section.spot)
    _fill(entry, section, CLUSTER_KEYS, Cluster, required=("name",))
    entry.spots["write_addresses"] = section.at("write_addresses")
    addresses = section.texts("write_addresses")
    for spot, text in addresses:
        if problem := rules.write_address_problem(text):
            section.errors.add(spot, problem)
    entry.values["write_addresses"] = [text for _, text in addresses]
    if problem := rules.repeated_address_problem(entry.values["write_addresses"]):
        section.errors.add(section.at("write_addresses"), problem)
    _accounts(entry, section, Cluster, base_dir)
    return entry


def _accounts(entry: FileEntry, section: Section, model: type[Model], base_dir: Path | None) -> None:
    """Read the accounts of a cluster, or of an instance in their place."""
    if accounts := section.section("accounts", ACCOUNTS):
        for account in ACCOUNTS:
            known = ("user", *PASSWORD_KEYS, *(("socket",) if account in SOCKET_ACCOUNTS else ()))
            if one := accounts.section(account, known):
                _account(entry, account, one, model, base_dir)


def _account(entry: FileEntry, account: str, section: Section, model: type[Model], base_dir: Path | None) -> None:
    """Read one account. If the file has no password, a later check looks for a stored one."""
    _fill(entry, section, {"user": (f"{account}_user", str)}, model, required=("user",))
    if "user" in section and entry.values.get(f"{account}_user") == "":
        section.errors.add(section.at("user"), phrase("the user is empty"))
    given = [key for key in PASSWORD_KEYS if key in section]
    entry.spots[f"{account}_password"] = section.at(given[0]) if given else section.spot
    password = read_password(section, base_dir)
    if section.value("socket", bool):
        if given:
            section.errors.add(section.at("socket"), either(given[0], "socket"))
        entry.values[f"{account}_password"] = ""
    elif password is not None:
        entry.values[f"{account}_password"] = password
    elif given:
        entry.broken.add(f"{account}_password")


def _instance(section: Section, cluster: str) -> InstanceEntry:
    entry = InstanceEntry(section.spot, cluster=cluster)
    _fill(entry, section, INSTANCE_KEYS, Instance, required=("name", "role", "datadir"))
    entry.spots["host"] = section.at("host")
    if "host" not in section:
        _is_missing(section, "host")
    entry.host = section.value("host", str) or ""
    if "address" in section:
        _fill(entry, section, {"address": ("address", str)}, Instance)
    service = section.section("service", SERVICE_KEYS)
    if service is None:
        if "service" not in section:
            _is_missing(section, "service")
        return entry
    before = len(section.errors)
    _fill(entry, service, SERVICE_KEYS, Instance)
    if len(section.errors) == before and (problem := rules.service_problem(entry.values)):
        section.errors.add(service.spot, problem)
    return entry
