"""The sample's TiDB cluster: three SQL nodes over twelve TiKV nodes, with a table whose inserts all go to one of them."""

import base64
import random
from datetime import datetime, timedelta

from dbops.engine.facts.growth import GrowthReading, TableSize
from dbops.engine.facts.instance import Client, DatadirFacts, HostFacts, InstanceFacts, ServerFacts, Tool
from dbops.engine.facts.server_kind import ServerKind
from dbops.engine.facts.tidb import StoreLeaders, TablePlacement, TidbFacts, TidbNode
from dbops.engine.states import Role
from dbops.models import CapacityReading, Cluster, Host, Instance, InstancePeriod, InstanceState
from dbops.sample.generate.clusters import GIB, MIB

NAME, RELEASE = "ledger", "8.5.1"
NODES, STORES = 3, 12
DATADIR = "/tidb-deploy/tidb-4000"
#: Written since the last report: all of the events, and an even part of the rest.
WRITTEN = 412 * MIB
READ_DAYS = 120


def make_tidb(begin: datetime, now: datetime, dice: random.Random) -> None:
    """Create the cluster with its hosts, nodes, facts and periods."""
    cluster = Cluster.objects.create(name=NAME, admin_user="dbops", write_addresses=["ledger.example:4000"])
    for number in range(1, NODES + 1):
        wire = b"\0\0\0\x0bssh-ed25519\0\0\0 " + dice.randbytes(32)
        host = Host.objects.create(
            name=f"db-{NAME}-t{number}",
            ssh_address=f"192.0.2.{200 + number}",
            ssh_user="dbops",
            sudo=True,
            host_key=f"ssh-ed25519 {base64.b64encode(wire).decode()}",
            host_key_accepted_by="anna.keller",
        )
        instance = Instance.objects.create(
            name=f"{NAME}-t{number}",
            cluster=cluster,
            host=host,
            role=Role.TIDB.value,
            address=host.ssh_address,
            port=4000,
            datadir=DATADIR,
            systemd_unit="tidb-4000",
        )
        period = InstancePeriod.objects.create(
            cluster=cluster,
            instance=instance,
            name=instance.name,
            role=instance.role,
            state="healthy",
            because="accepts connections",
            started_at=begin,
        )
        facts = _facts(instance, now - timedelta(seconds=number * 2))
        InstanceState.objects.create(
            instance=instance,
            probe_due_at=now,
            host_read_since=now - timedelta(days=3),
            host_read_at=facts.observed_at,
            period=period,
            **InstanceState.columns(facts),
        )


def _facts(instance: Instance, now: datetime) -> InstanceFacts:
    cluster, read_at = _cluster(now), now - timedelta(minutes=11)
    return InstanceFacts(
        observed_at=now,
        host=HostFacts(
            hostname=instance.host.name,
            machine_id=instance.name.encode().hex().ljust(32, "0"),
            local_address=instance.address,
            cpu_count=16,
            memory_available_bytes=20 * GIB,
            has_aes=True,
            ssh_ciphers=("aes128-gcm@openssh.com",),
            open_files_limit=1_048_576,
            clock_offset_seconds=0.0,
            tools={"bash": Tool("/usr/bin/bash")},
            has_systemd=True,
        ),
        datadir=DatadirFacts(
            path=DATADIR,
            exists=True,
            is_empty=False,
            is_mount_point=False,
            identity="64769:131074",
            owner="tidb:tidb",
            filesystem="ext4",
            free_bytes=71 * GIB,
            data_bytes=None,
            total_bytes=None,
        ),
        server=_server(instance, cluster),
        backup_processes=(),
        found_schedules=(),
        growth=GrowthReading(
            read_at=read_at,
            schemas=cluster.schemas,
            tables=cluster.tables,
            data_bytes=cluster.data_bytes,
            index_bytes=cluster.index_bytes,
            largest=tuple(TableSize(one.schema, one.table, one.bytes) for one in cluster.placements or ()),
        ),
    )


def write_tidb_readings(now: datetime) -> int:
    """Store what the nodes reported each day: the data grows, and what TiDB does not report is unknown."""
    facts = _cluster(now)
    largest = [{"schema": one.schema, "table": one.table, "bytes": one.bytes} for one in facts.placements or ()]
    rows = [
        CapacityReading(
            instance=instance,
            at=now - timedelta(days=days, minutes=11),
            is_daily=days > 0,
            schemas=facts.schemas,
            tables=(facts.tables or 0) - days // 40,
            data_bytes=(facts.data_bytes or 0) - days * 4 * GIB,
            index_bytes=(facts.index_bytes or 0) - days * GIB,
            largest=largest if days == 0 else None,
            disk_bytes=100 * GIB,
            disk_free_bytes=71 * GIB,
        )
        for instance in Instance.objects.filter(cluster__name=NAME)
        for days in range(READ_DAYS, -1, -1)
    ]
    CapacityReading.objects.bulk_create(rows)
    return len(rows)


def _server(instance: Instance, cluster: TidbFacts) -> ServerFacts:
    return ServerFacts(
        flavor="tidb",
        version=f"8.0.11-TiDB-v{RELEASE}",
        version_comment="TiDB Server (Apache License 2.0) Community Edition, MySQL 8.0 compatible",
        server_id=0,
        server_uuid="",
        hostname=instance.host.name,
        port=4000,
        socket="",
        datadir="",
        read_only=False,
        log_bin=False,
        log_replica_updates=False,
        gtid_enabled=False,
        gtid_executed="",
        gtid_binlog="",
        binlog_format="",
        binlog_expire_seconds=0,
        page_size=0,
        lower_case_table_names=2,
        redo_capacity_bytes=0,
        redo_lsn=0,
        uptime_seconds=19 * 86400,
        parallel_workers=0,
        kind=ServerKind("TiDB"),
        clients=tuple(Client("ledger", f"198.51.100.{60 + n}:5{n}012", "ledger", "Sleep") for n in range(18)),
        tidb=cluster,
    )


def _cluster(now: datetime) -> TidbFacts:
    nodes = [TidbNode("pd", f"192.0.2.{210 + n}:2379", RELEASE) for n in range(1, 4)]
    nodes += [TidbNode("tidb", f"192.0.2.{200 + n}:4000", RELEASE) for n in range(1, NODES + 1)]
    nodes += [TidbNode("tikv", f"192.0.2.{220 + n}:20160", RELEASE) for n in range(1, STORES + 1)]
    return TidbFacts(
        release=RELEASE,
        store="tikv",
        nodes=tuple(nodes),
        schemas=3,
        tables=41,
        data_bytes=1180 * GIB,
        index_bytes=290 * GIB,
        placements=_tables(),
        read_at=now - timedelta(minutes=11),
    )


def _tables() -> tuple[TablePlacement, ...]:
    """Return the largest tables: one whose inserts go to one region, one with partitions, one with random ids, one too large to list."""
    events = TablePlacement(
        schema="ledger",
        table="events",
        bytes=164 * GIB,
        rows=812_000_000,
        sharding="NOT_SHARDED(PK_IS_HANDLE)",
        is_clustered=True,
        primary_key=("id",),
        first_key_type="bigint",
        counts_up=True,
        definition=EVENTS,
        stores=_leaders(1749, hot=7),
    )
    entries = TablePlacement(
        schema="ledger",
        table="entries",
        bytes=131 * GIB,
        rows=603_000_000,
        sharding="NOT_SHARDED(PK_IS_HANDLE)",
        is_clustered=True,
        primary_key=("account_id", "id"),
        first_key_type="bigint",
        partition_method="KEY",
        partitions=STORES,
        stores=_leaders(1404),
    )
    payments = TablePlacement(
        schema="ledger",
        table="payments",
        bytes=77 * GIB,
        rows=240_000_000,
        sharding="PK_AUTO_RANDOM_BITS=5",
        is_clustered=True,
        primary_key=("id",),
        first_key_type="bigint",
        stores=_leaders(824),
    )
    archive = TablePlacement(
        schema="archive",
        table="events_2024",
        bytes=730 * GIB,
        rows=3_900_000_000,
        sharding="SHARD_BITS=4",
        primary_key=("id",),
        first_key_type="bigint",
        problem="about 7,786 regions are too many to list",
    )
    return archive, events, entries, payments


EVENTS = """CREATE TABLE `events` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `account_id` bigint NOT NULL,
  `kind` varchar(40) NOT NULL,
  `body` json DEFAULT NULL,
  `at` datetime(6) NOT NULL,
  PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */,
  KEY `of_account` (`account_id`,`at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin AUTO_INCREMENT=812004001"""


def _leaders(regions: int, *, hot: int | None = None) -> tuple[StoreLeaders, ...]:
    """Return leaders spread over all stores. ``hot`` takes nearly all writes."""
    found = []
    for store in range(1, STORES + 1):
        share = (0.97 if store == hot else 0.03 / (STORES - 1)) if hot else 1 / STORES
        found.append(StoreLeaders(store, regions // STORES + (store <= regions % STORES), int(WRITTEN * share)))
    return tuple(sorted(found, key=lambda one: (-one.regions, one.store)))
