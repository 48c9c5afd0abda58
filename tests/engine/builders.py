"""A healthy fleet of three, and ways to make one thing of it wrong. No Django here."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dbops.engine.facts.instance import (
    Attached,
    ConfigFacts,
    DatadirFacts,
    HostFacts,
    InstanceFacts,
    ReplicationFacts,
    ServerFacts,
    StatementCheck,
    Tool,
)
from dbops.engine.facts.server_kind import ServerKind
from dbops.engine.facts.stored_data import StoredData, StoredFiles
from dbops.engine.planning.inputs import KnownInstance, PlanInputs

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GIB = 1024**3
PROGRAMS = (
    "bash",
    "flock",
    "setsid",
    "setpriv",
    "ssh",
    "ssh-keygen",
    "mbstream",
    "mariadb",
    "mariadbd",
    "mariadb-backup",
)
ADDRESSES = {"primary-1": "10.0.0.11", "backup-1": "10.0.0.12", "replica-1": "10.0.0.13"}


def link(source_host: str = "10.0.0.11", **changes: Any) -> ReplicationFacts:
    values: dict[str, Any] = {
        "channel": "",
        "source_host": source_host,
        "source_port": 3306,
        "io_running": "Yes",
        "sql_running": "Yes",
        "lag_seconds": 0.0,
        "uses_gtid": True,
        "gtid_position": "0-11-100",
        "relay_source_log_file": "binlog.000001",
        "exec_source_log_pos": 4,
    }
    return ReplicationFacts(**{**values, **changes})


def server(number: int, **changes: Any) -> ServerFacts:
    values: dict[str, Any] = {
        "flavor": "mariadb",
        "version": "10.11.19",
        "version_comment": "MariaDB Server",
        "server_id": number,
        "server_uuid": "",
        "hostname": f"db-{number}",
        "port": 3306,
        "socket": "/run/mysqld/mysqld.sock",
        "datadir": "/var/lib/mysql/",
        "read_only": True,
        "log_bin": True,
        "log_replica_updates": True,
        "gtid_enabled": True,
        "gtid_executed": "0-11-100",
        "gtid_binlog": "0-11-100",
        "binlog_format": "ROW",
        "binlog_expire_seconds": 7 * 86400,
        "page_size": 16384,
        "lower_case_table_names": 0,
        "redo_capacity_bytes": GIB,
        "redo_lsn": 1000,
        "redo_bytes_per_second": 1000.0,
        "uptime_seconds": 1000,
        "missing_privileges": (),
        "parallel_workers": 0,
        "innodb_bytes": 10 * GIB,
        "set_at_run_time": (),
        "stored": StoredData(
            plugin_dir="/usr/lib/mysql/plugin", has_time_zones=True, account_plugins=("mysql_native_password",)
        ),
        "replication": (link(),),
        "kind": ServerKind("MariaDB"),
    }
    return ServerFacts(**{**values, **changes})


def host(number: int, **changes: Any) -> HostFacts:
    values: dict[str, Any] = {
        "hostname": f"db-{number}",
        "machine_id": f"machine-{number}",
        "local_address": f"10.0.0.{number}",
        "cpu_count": 8,
        "memory_available_bytes": 16 * GIB,
        "has_aes": True,
        "ssh_ciphers": ("aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com"),
        "open_files_limit": 1_048_576,
        "clock_offset_seconds": 0.1,
        "tools": {name: Tool(f"/usr/bin/{name}", "10.11.19") for name in PROGRAMS},
    }
    return HostFacts(**{**values, **changes})


def datadir(number: int, **changes: Any) -> DatadirFacts:
    values: dict[str, Any] = {
        "path": "/var/lib/mysql",
        "exists": True,
        "is_empty": False,
        "is_mount_point": False,
        "identity": f"{number}:1",
        "owner": "mysql:mysql",
        "filesystem": "ext4",
        "free_bytes": 100 * GIB,
        "data_bytes": 10 * GIB,
        "total_bytes": 12 * GIB,
        "server_pids": (number,),
        "stored": StoredFiles(links=()),
    }
    return DatadirFacts(**{**values, **changes})


def facts(number: int, **changes: Any) -> InstanceFacts:
    values: dict[str, Any] = {
        "observed_at": NOW - timedelta(seconds=5),
        "host": host(number),
        "datadir": datadir(number),
        "config": ConfigFacts(
            server_id=number,
            port=3306,
            socket="/run/mysqld/mysqld.sock",
            datadir="/var/lib/mysql",
            read_only=True,
            skip_replica_start=False,
        ),
        "server": server(number),
        "backup_account": (StatementCheck("SHOW MASTER STATUS"),),
        "admin_login": StatementCheck("SELECT 1"),
    }
    return InstanceFacts(**{**values, **changes})


def member(name: str, role: str, number: int, **changes: Any) -> KnownInstance:
    values: dict[str, Any] = {
        "name": name,
        "cluster": "shop",
        "role": role,
        "host": f"db-{number}",
        "host_key_fingerprint": f"SHA256:{number}",
        "ssh_address": f"10.0.0.{number}",
        "ssh_port": 22,
        "ssh_user": "root",
        "address": f"10.0.0.{number}",
        "port": 3306,
        "datadir": "/var/lib/mysql",
        "defaults_file": "/etc/mysql/my.cnf",
        "os_user": "mysql",
        "start_command": "/usr/bin/systemctl start mariadb",
        "stop_command": "/usr/bin/systemctl stop mariadb",
        "facts": facts(number),
    }
    return KnownInstance(**{"shared_logins": (), **values, **changes})


def inputs(**changes: Any) -> PlanInputs:
    """A fleet in which ``replica-1`` may be rebuilt from ``backup-1``. ``target``, ``source`` and ``primary`` may be replaced."""
    primary = changes.pop("primary", member("primary-1", "primary", 11, facts=facts(11, server=primary_server())))
    source = changes.pop("source", member("backup-1", "backup", 12))
    target = changes.pop("target", member("replica-1", "replica", 13))
    members = tuple({item.name: item for item in (primary, source, target) if item}.values())
    values: dict[str, Any] = {"members": members, "write_addresses": (), "now": NOW, "fresh_seconds": 60.0}
    return PlanInputs(target=target, source=source, primary=primary, **{**values, **changes})


def primary_server(**changes: Any) -> ServerFacts:
    attached = (Attached(12, "10.0.0.12", 3306), Attached(13, "10.0.0.13", 3306))
    return server(11, **{"read_only": False, "replication": (), "replicas": attached, **changes})


def target_with(**changes: Any) -> KnownInstance:
    """The target with its server's facts changed."""
    return member("replica-1", "replica", 13, facts=facts(13, server=server(13, **changes)))


def source_with(**changes: Any) -> KnownInstance:
    return member("backup-1", "backup", 12, facts=facts(12, server=server(12, **changes)))


__all__ = ["GIB", "NOW", "replace"]
