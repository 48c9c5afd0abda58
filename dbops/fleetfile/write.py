"""Write the inventory as a fleet file, without secrets and in a stable order."""

from typing import Any

import yaml

from dbops.fleetfile.read import MAY_BE_EMPTY, SCHEDULE_KEYS, VERSION
from dbops.models import BackupSchedule, Cluster, Host, Instance
from dbops.models.fleet import ACCOUNTS, SOCKET_ACCOUNTS
from dbops.models.secret import is_set, vault_path

HEAD = """\
# Written by `manage.py fleet export`. Format: docs/reference/fleet.md
# This file contains no passwords and no private keys. Importing it keeps the stored ones.
"""


def write() -> str:
    """Return the text of an importable file."""
    clusters = Cluster.objects.order_by("name").prefetch_related("instances__host", "instances__backup_schedules")
    content = {
        "version": VERSION,
        "hosts": [host_content(host) for host in Host.objects.select_related("jump_host").order_by("name")],
        "clusters": [cluster_content(cluster) for cluster in clusters],
    }
    return HEAD + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)


def host_content(host: Host) -> dict[str, Any]:
    """Return one host in the file's form."""
    ssh: dict[str, Any] = {"address": host.ssh_address, "port": host.ssh_port, "user": host.ssh_user}
    if host.ssh_key_file:
        ssh["key_file"] = host.ssh_key_file
    if path := vault_path(host, "ssh_private_key"):
        ssh["key_vault"] = str(path)
    if host.jump_host:
        ssh["jump_host"] = host.jump_host.name
    if host.host_key:
        ssh["host_key"] = host.host_key
    if host.certificate_name:
        ssh["certificate_name"] = host.certificate_name
    return {
        "name": host.name,
        "ssh": ssh,
        "sudo": host.sudo,
        "work_dir": host.work_dir,
        "authorized_keys_file": host.authorized_keys_file,
        "stream_address": host.stream_address,
    }


def cluster_content(cluster: Cluster) -> dict[str, Any]:
    """Return one cluster with its instances in the file's form."""
    instances = sorted(cluster.instances.all(), key=lambda item: item.name)
    return {
        "name": cluster.name,
        "write_addresses": list(cluster.write_addresses),
        **({} if cluster.wanted_replicas is None else {"wanted_replicas": cluster.wanted_replicas}),
        **_rules(cluster),
        **(
            {}
            if cluster.redundancy_goal_seconds is None
            else {"redundancy_goal_seconds": cluster.redundancy_goal_seconds}
        ),
        **({"restore_test_host": cluster.restore_test_host} if cluster.restore_test_host else {}),
        **({"tls_ca": cluster.tls_ca} if cluster.tls_ca else {}),
        "accounts": _accounts(cluster),
        "instances": [_instance(instance) for instance in instances],
    }


def _rules(cluster: Cluster) -> dict[str, Any]:
    """Return the rules of approvals and tickets, without those that are off."""
    found = {
        "needs_approval": cluster.needs_approval,
        "approvals": cluster.approval_count if cluster.approval_count != 1 else None,
        "only_approvers": cluster.approvers_only,
        "ticket_pattern": cluster.ticket_pattern,
        "ticket_url": cluster.ticket_url,
    }
    return {key: value for key, value in found.items() if value}


def _accounts(row: Cluster | Instance) -> dict[str, Any]:
    """Return the accounts without passwords, with their paths in Vault."""
    users = {account: getattr(row, f"{account}_user") for account in ACCOUNTS}
    found: dict[str, Any] = {account: {"user": user} for account, user in users.items() if user}
    for account in found:
        if path := vault_path(row, f"{account}_password"):
            found[account]["password_vault"] = str(path)
    for account in SOCKET_ACCOUNTS:
        if account in found and not is_set(row, f"{account}_password"):
            found[account]["socket"] = True
    return found


def _instance(instance: Instance) -> dict[str, Any]:
    service = {"systemd_unit": instance.systemd_unit}
    if not instance.systemd_unit:
        service = {"start": instance.start_command, "stop": instance.stop_command}
    schedules = sorted(instance.backup_schedules.all(), key=lambda item: item.name)
    backups = {"backups": [_schedule(item) for item in schedules]} if schedules else {}
    return {
        "name": instance.name,
        "role": instance.role,
        "host": instance.host.name,
        "address": instance.address,
        "port": instance.port,
        "datadir": instance.datadir,
        "defaults_file": instance.defaults_file,
        "os_user": instance.os_user,
        **_replication(instance),
        **({"accounts": accounts} if (accounts := _accounts(instance)) else {}),
        "service": service,
        **backups,
    }


def _replication(instance: Instance) -> dict[str, Any]:
    """Return the optional settings that are set."""
    names = ("group_suffix", "replication_tls", "replication_tls_ca", "replication_delay_seconds")
    return {name: value for name in names if (value := getattr(instance, name)) not in ("", None)}


def _schedule(schedule: BackupSchedule) -> dict[str, Any]:
    """Return a schedule in the file's form; omit unset values, except those that would get a default."""
    values = {key: getattr(schedule, name) for key, (name, _) in SCHEDULE_KEYS.items()}
    return {key: value for key, value in values.items() if key in MAY_BE_EMPTY or (value is not None and value != "")}
