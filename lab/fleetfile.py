"""Write ``fleet.yaml``, which a dashboard imports. Format: ``docs/reference/fleet.md``."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from lab.checks import current_user
from lab.flavors.base import Account, host_accounts
from lab.hosts import LabHost
from lab.secrets import write_private

ACCOUNTS_IN_FILE = ("admin", "replication", "backup")


def fleet(
    cluster: str,
    hosts: Sequence[LabHost],
    accounts: Mapping[str, Account],
    ssh_key: Path,
    by_socket: Collection[str] = (),
    *,
    own_accounts: bool = False,
) -> dict[str, Any]:
    """Return the fleet file's content. Each host has one instance of the same name.

    ``by_socket``, ``own_accounts``: as of ``Flavor``.
    """
    written: dict[str, Any] = {key: with_password(accounts[key]) for key in ACCOUNTS_IN_FILE}
    for key in by_socket:
        written["local" if key == "admin" else key] = {"user": accounts[key].user, "socket": True}
    instances = [instance_entry(host) for host in hosts]
    if own_accounts:
        for number, entry in enumerate(instances, 1):
            own = host_accounts(accounts, number)
            entry["accounts"] = {key: with_password(account) for key, account in own.items()}
    return {
        "version": 1,
        "hosts": [host_entry(host, ssh_key) for host in hosts],
        "clusters": [
            {
                "name": cluster,
                "write_addresses": [],
                "accounts": written,
                "instances": instances,
            }
        ],
    }


def with_password(account: Account) -> dict[str, str]:
    return {"user": account.user, "password": account.password}


def host_entry(host: LabHost, ssh_key: Path) -> dict[str, Any]:
    return {
        "name": host.name,
        "ssh": {
            "address": host.address,
            "port": host.ssh_port,
            "user": current_user(),
            "key_file": str(ssh_key),
            "host_key": host.sshd.host_key,
        },
        "sudo": False,
        "work_dir": str(host.work_dir),
        "authorized_keys_file": str(host.sshd.authorized_keys),
    }


def instance_entry(host: LabHost) -> dict[str, Any]:
    return {
        "name": host.name,
        "role": host.role,
        "host": host.name,
        "address": host.address,
        "port": host.port,
        "datadir": str(host.data_dir),
        "defaults_file": str(host.config_file),
        "os_user": host.plan().user,
        "service": {"start": str(host.start_script), "stop": str(host.stop_script)},
    }


def write_fleet_file(path: Path, content: Mapping[str, Any]) -> None:
    """Write the file, readable only by its owner because it contains passwords."""
    head = "# Written by `lab up`. Format: docs/reference/fleet.md. It contains passwords.\n"
    write_private(path, head + yaml.safe_dump(dict(content), sort_keys=False, width=1000))
