"""Generate the facts of the sample's instances."""

import uuid
from dataclasses import replace
from datetime import datetime

from dbops.engine.facts.growth import GrowthReading
from dbops.engine.facts.instance import (
    Attached,
    Client,
    ConfigFacts,
    DatadirFacts,
    HostFacts,
    InstanceFacts,
    PageWrites,
    ProbeProblem,
    ReplicationFacts,
    ServerFacts,
    StatementCheck,
    Tool,
)
from dbops.engine.facts.server_kind import ServerKind
from dbops.engine.facts.stored_data import StoredData, StoredFiles
from dbops.models import Instance
from dbops.sample.generate.capacity import GROWTH
from dbops.sample.generate.clusters import GIB, SampleCluster, free_bytes_of
from dbops.sample.generate.storage import ON_CARDS, WITHOUT_DOUBLEWRITE, storage_of

TOOLS = ("bash", "flock", "gzip", "python3", "setsid", "setpriv", "ssh", "ssh-keygen", "sshd", "sysbench", "zstd")
OF_FLAVOR = {
    "mariadb": ("mariadb-backup", "mbstream", "mariadb", "mariadbd", "mariadb-dump", "mariadb-install-db"),
    "mysql": ("xtrabackup", "xbstream", "mysql", "mysqld", "mysqldump"),
}
BACKUP_TOOLS = ("mariadb-backup", "mbstream", "xtrabackup", "xbstream")
EXECUTED = 914_802_331
BINLOG_SECONDS = 7 * 86400
TRANSACTIONS_PER_SECOND = 120


def number_of(cluster: SampleCluster, instance: Instance) -> int:
    """Return a server id, unique within a cluster."""
    return 100 + list(cluster.instances).index(instance.name) + 1


def uuid_of(name: str) -> str:
    """Return a uuid that depends only on the name."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.example"))


def facts_of(cluster: SampleCluster, instances: list[Instance], instance: Instance, now: datetime) -> InstanceFacts:
    """Return the facts of a healthy instance.

    Args:
        instances: of its cluster, the primary first.
    """
    return InstanceFacts(
        observed_at=now,
        host=_host(cluster, instance),
        datadir=_datadir(cluster, instance),
        config=ConfigFacts(
            server_id=number_of(cluster, instance),
            port=3306,
            socket="/run/mysqld/mysqld.sock",
            datadir="/var/lib/mysql",
            read_only=instance.role != "primary",
            skip_replica_start=True,
        ),
        server=_server(cluster, instances, instance),
        backup_account=(
            StatementCheck("BACKUP STAGE START" if cluster.flavor == "mariadb" else "LOCK INSTANCE FOR BACKUP"),
        ),
        backup_processes=(),
        found_schedules=(),
        growth=_growth(cluster, now),
    )


def _growth(cluster: SampleCluster, now: datetime) -> GrowthReading:
    plan = GROWTH[cluster.name]
    return GrowthReading(
        now, schemas=plan.schemas, tables=plan.schemas * plan.tables_of_schema, data_bytes=cluster.data_bytes
    )


def without_server(facts: InstanceFacts, because: str) -> InstanceFacts:
    """Return the facts of a host whose server does not answer."""
    return replace(facts, server=None, server_problem=ProbeProblem("mysql.unreachable", because))


def with_lag(facts: InstanceFacts, seconds: float) -> InstanceFacts:
    assert facts.server is not None  # noqa: S101 - for the type checker
    channels = tuple(replace(channel, lag_seconds=seconds) for channel in facts.server.replication)
    return replace(facts, server=replace(facts.server, replication=channels))


def _host(cluster: SampleCluster, instance: Instance) -> HostFacts:
    tools = {name: Tool(f"/usr/bin/{name}") for name in TOOLS}
    for name in OF_FLAVOR[cluster.flavor]:
        tools[name] = Tool(f"/usr/bin/{name}", cluster.tool if name in BACKUP_TOOLS else cluster.version)
    big = cluster.data_bytes > 1000 * GIB
    return HostFacts(
        hostname=instance.host.name,
        machine_id=uuid_of(instance.host.name).replace("-", ""),
        local_address=instance.address,
        cpu_count=32 if big else 16,
        memory_available_bytes=(96 if big else 24) * GIB,
        has_aes=True,
        ssh_ciphers=("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com"),
        open_files_limit=1_048_576,
        clock_offset_seconds=0.0,
        tools=tools,
        has_systemd=True,
    )


def _datadir(cluster: SampleCluster, instance: Instance) -> DatadirFacts:
    number = number_of(cluster, instance)
    return DatadirFacts(
        path="/var/lib/mysql",
        exists=True,
        is_empty=False,
        is_mount_point=False,
        identity=f"64769:{1_835_000 + number}",
        owner="mysql:mysql",
        filesystem="xfs",
        free_bytes=free_bytes_of(cluster, instance.name),
        data_bytes=cluster.data_bytes,
        total_bytes=int(cluster.data_bytes * 1.04),
        disk_bytes=int(cluster.data_bytes * 1.04) + free_bytes_of(cluster, instance.name),
        kept_bytes=0,
        server_pids=(2000 + number,),
        stored=StoredFiles(links=()),
        storage=storage_of(cluster, instance),
    )


def position_of(cluster: SampleCluster, *, seconds_ago: float = 0) -> str:
    """Return the GTID set or position of the cluster's primary."""
    number = EXECUTED - int(seconds_ago * TRANSACTIONS_PER_SECOND)
    return f"{uuid_of(next(iter(cluster.instances)))}:1-{number}" if cluster.flavor == "mysql" else f"0-101-{number}"


def _server(cluster: SampleCluster, instances: list[Instance], instance: Instance) -> ServerFacts:
    is_mysql, primary = cluster.flavor == "mysql", instances[0]
    doublewritten = 0 if cluster.name in ON_CARDS else 48_106_220
    position = position_of(cluster)
    others = [item for item in instances if item is not primary]
    is_primary = instance is primary
    return ServerFacts(
        flavor=cluster.flavor,
        version=cluster.version,
        version_comment="MySQL Community Server - GPL" if is_mysql else "MariaDB Server",
        server_id=number_of(cluster, instance),
        server_uuid=uuid_of(instance.name) if is_mysql else "",
        hostname=instance.host.name,
        port=3306,
        socket="/run/mysqld/mysqld.sock",
        datadir="/var/lib/mysql/",
        read_only=not is_primary,
        log_bin=True,
        log_replica_updates=True,
        gtid_enabled=True,
        gtid_executed=position,
        gtid_binlog="" if is_mysql else position,
        gtid_purged=position_of(cluster, seconds_ago=BINLOG_SECONDS),
        binlog_format="ROW",
        binlog_expire_seconds=BINLOG_SECONDS,
        page_size=16384,
        doublewrite="OFF" if instance.name == WITHOUT_DOUBLEWRITE else "ON",
        page_writes=PageWrites(
            "O_DIRECT", use_atomic="" if is_mysql else "ON", pages=48_211_907, doublewritten=doublewritten
        ),
        set_at_run_time=(),
        lower_case_table_names=0,
        redo_capacity_bytes=16 * GIB,
        redo_lsn=98_114_223_901,
        redo_bytes_per_second=350_000.0,
        uptime_seconds=41 * 86400,
        parallel_workers=4,
        kind=ServerKind("MySQL" if is_mysql else "MariaDB"),
        innodb_bytes=int(cluster.data_bytes * 0.98),
        stored=StoredData(plugin_dir="/usr/lib/mysql/plugin", has_time_zones=True),
        replication=() if is_primary else (_channel(cluster, primary, position),),
        replicas=tuple(Attached(number_of(cluster, item), item.address, 3306) for item in others) if is_primary else (),
        clients=tuple(Client(cluster.name, f"198.51.100.{40 + n}", cluster.name, "Sleep") for n in range(6))
        if instance.role != "backup"
        else (),
    )


def _channel(cluster: SampleCluster, primary: Instance, position: str) -> ReplicationFacts:
    word = "SOURCE" if cluster.flavor == "mysql" else "MASTER"
    return ReplicationFacts(
        channel="",
        source_host=primary.address,
        source_port=3306,
        io_running="Yes",
        sql_running="Yes",
        lag_seconds=0.0,
        uses_gtid=True,
        gtid_position=position,
        relay_source_log_file="binlog.004711",
        exec_source_log_pos=88_120_417,
        source_server_id=101,
        source_uuid=uuid_of(primary.name) if cluster.flavor == "mysql" else "",
        source_user="repl",
        options={f"{word}_SSL": "1", f"{word}_SSL_CA": "/etc/ssl/certs/databases.pem", f"{word}_CONNECT_RETRY": "10"},
    )
