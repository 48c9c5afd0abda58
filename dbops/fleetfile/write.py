"""The inventory as a fleet file: everything but secrets, in a stable order."""

from typing import Any

import yaml

from dbops.fleetfile.read import MAY_BE_EMPTY, SCHEDULE_KEYS, VERSION
from dbops.fleetfile.rules import ACCOUNTS
from dbops.models import BackupSchedule, Cluster, Host, Instance

HEAD = """\
# The fleet, as `manage.py fleet export` writes it. Format: docs/reference/fleet.md
# Passwords and private keys are not in here. Where they are stored, importing this file keeps them.
"""


def write() -> str:
    """Return the text of a file that can be imported again."""
    clusters = Cluster.objects.order_by("name").prefetch_related("instances__host", "instances__backup_schedules")
    content = {
        "version": VERSION,
        "hosts": [host_content(host) for host in Host.objects.order_by("name")],
        "clusters": [cluster_content(cluster) for cluster in clusters],
    }
    return HEAD + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)


def host_content(host: Host) -> dict[str, Any]:
    """Return one host as it stands in the file."""
    ssh: dict[str, Any] = {"address": host.ssh_address, "port": host.ssh_port, "user": host.ssh_user}
    if host.ssh_key_file:
        ssh["key_file"] = host.ssh_key_file
    if host.host_key:
        ssh["host_key"] = host.host_key
    return {
        "name": host.name,
        "ssh": ssh,
        "sudo": host.sudo,
        "work_dir": host.work_dir,
        "authorized_keys_file": host.authorized_keys_file,
        "stream_address": host.stream_address,
    }


def cluster_content(cluster: Cluster) -> dict[str, Any]:
    """Return one cluster with its instances as they stand in the file."""
    users = {account: getattr(cluster, f"{account}_user") for account in ACCOUNTS}
    instances = sorted(cluster.instances.all(), key=lambda item: item.name)
    return {
        "name": cluster.name,
        "write_addresses": list(cluster.write_addresses),
        **({} if cluster.wanted_replicas is None else {"wanted_replicas": cluster.wanted_replicas}),
        **({"needs_approval": True} if cluster.needs_approval else {}),
        **(
            {}
            if cluster.redundancy_goal_seconds is None
            else {"redundancy_goal_seconds": cluster.redundancy_goal_seconds}
        ),
        **({"restore_test_host": cluster.restore_test_host} if cluster.restore_test_host else {}),
        "accounts": {account: {"user": user} for account, user in users.items() if user},
        "instances": [_instance(instance) for instance in instances],
    }


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
        "service": service,
        **backups,
    }


def _schedule(schedule: BackupSchedule) -> dict[str, Any]:
    """Return a schedule as the file has it; what is not set is left out, but for what would get a default then."""
    values = {key: getattr(schedule, name) for key, (name, _) in SCHEDULE_KEYS.items()}
    return {key: value for key, value in values.items() if key in MAY_BE_EMPTY or (value is not None and value != "")}
