"""Create rows of a large fleet with a week of backups and rebuilds, for benchmarks and screenshots only."""

import random
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from dbops.engine.facts.instance import (
    Client,
    ConfigFacts,
    DatadirFacts,
    HostFacts,
    InstanceFacts,
    ReplicationFacts,
    ServerFacts,
    Tool,
)
from dbops.engine.facts.server_kind import ServerKind
from dbops.lib.cron import due_times, next_due
from dbops.models import (
    BackupRun,
    BackupSchedule,
    Cluster,
    Hold,
    Host,
    Instance,
    InstanceState,
    Rebuild,
)

ZONES = ("Europe/Berlin", "UTC", "America/New_York", "Asia/Kolkata")
WORDS = ("shop", "billing", "search", "mail", "stock", "audit", "users", "chat", "ads", "geo")
BATCH = 500
GIB = 1024**3
WEEK = timedelta(days=7)


def make_big_fleet(*, clusters: int, replicas: int = 3, now: datetime, user: User, seed: int = 7) -> None:
    """Add clusters with a primary, a backup instance, replicas, a nightly schedule and a week of history.

    Args:
        user: requester of the rebuilds.
    """
    dice = random.Random(seed)  # noqa: S311 - the same fleet each time
    with transaction.atomic():
        first = Cluster.objects.count()
        numbers = range(first, first + clusters)
        rows = [Cluster(name=f"{WORDS[number % len(WORDS)]}-{number:04d}") for number in numbers]
        Cluster.objects.bulk_create(rows, BATCH)
        instances = _instances(rows, replicas)
        _states(instances, now, dice)
        backups = [item for item in instances if item.role == "backup"]
        schedules = _schedules(backups, now, dice)
        _runs(schedules, now, dice)
        _rebuilds(rows, instances, now, dice, user)


def _instances(clusters: list[Cluster], replicas: int) -> list[Instance]:
    names = ["primary-1", "backup-1", *(f"replica-{number}" for number in range(1, replicas + 1))]
    wanted = [(cluster, name) for cluster in clusters for name in names]
    hosts = [
        Host(name=f"db-{cluster.name}-{name}", ssh_address=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        for number, (cluster, name) in enumerate(wanted, Host.objects.count())
    ]
    Host.objects.bulk_create(hosts, BATCH)
    instances = [
        Instance(
            name=f"{cluster.name}-{name}",
            cluster=cluster,
            host=host,
            role=name.partition("-")[0],
            address=host.ssh_address,
            systemd_unit="mariadb",
        )
        for (cluster, name), host in zip(wanted, hosts, strict=True)
    ]
    Instance.objects.bulk_create(instances, BATCH)
    return instances


def _states(instances: list[Instance], now: datetime, dice: random.Random) -> None:
    """Return a state: nine of ten are healthy; the others lag, have stopped or do not answer."""
    healthy = InstanceState.columns(_facts(now))
    record = healthy["record"]
    primaries = {item.cluster_id: item for item in instances if item.role == "primary"}
    states = []
    for instance in instances:
        luck = dice.random()
        columns = {**healthy, "observed_at": now - timedelta(seconds=dice.uniform(0, 20))}
        columns["record"] = _record_of(record, instance, primaries[instance.cluster_id])
        columns["is_read_only"] = instance.role != "primary"
        columns["lag_seconds"] = dice.choice((0.0, 0.0, 0.0, 1.0, 4.0))
        if instance.role != "primary" and luck < 0.02:
            columns["lag_seconds"] = 4000.0
        elif instance.role != "primary" and luck < 0.03:
            columns["stopped"] = "Could not execute Write_rows_v1 event on table shop.orders; Duplicate entry '4711'"
        elif luck < 0.035:
            columns["problem"] = "Connection refused"
        states.append(InstanceState(instance=instance, probe_due_at=now + timedelta(seconds=15), **columns))
    InstanceState.objects.bulk_create(states, BATCH)


def _facts(now: datetime) -> InstanceFacts:
    """Return a probe result of a healthy replica, as large as a real one."""
    channel = ReplicationFacts("", "primary", 3306, "Yes", "Yes", 0.0, True, "0-1-4711000", "bin.000712", 90210)
    tools = ("mariadb-backup", "mbstream", "mariadb", "bash", "flock", "setsid", "setpriv", "ssh", "ssh-keygen", "sshd")
    server = ServerFacts(
        flavor="mariadb",
        version="10.11.19",
        version_comment="MariaDB Server",
        server_id=3,
        server_uuid="",
        hostname="db",
        port=3306,
        socket="/run/mysqld/mysqld.sock",
        datadir="/var/lib/mysql/",
        read_only=True,
        log_bin=True,
        log_replica_updates=True,
        gtid_enabled=True,
        gtid_executed="0-1-4711000",
        gtid_binlog="0-1-4711000",
        binlog_format="ROW",
        binlog_expire_seconds=7 * 86400,
        page_size=16384,
        lower_case_table_names=0,
        redo_capacity_bytes=4 * GIB,
        redo_lsn=123456789,
        uptime_seconds=86400 * 31,
        kind=ServerKind("MariaDB"),
        parallel_workers=4,
        innodb_bytes=1470 * GIB,
        replication=(channel,),
        clients=tuple(Client("shop", f"10.9.1.{number}", "shop", "Sleep") for number in range(40)),
    )
    host = HostFacts(
        "db", uuid.UUID(int=7).hex, "10.0.0.1", 16, 48 * GIB, True, ("aes128-gcm@openssh.com",), 65536, 0.0
    )
    return InstanceFacts(
        observed_at=now,
        host=replace(host, tools={name: Tool(f"/usr/bin/{name}", "10.11.19") for name in tools}, has_systemd=True),
        datadir=DatadirFacts(
            *("/var/lib/mysql", True, False, True, "64769:1835010", "mysql", "xfs"),
            *(2400 * GIB, 1480 * GIB, 1530 * GIB),
        ),
        config=ConfigFacts(3, 3306, "/run/mysqld/mysqld.sock", "/var/lib/mysql", True, False),
        server=server,
    )


def _record_of(record: dict[str, Any], instance: Instance, primary: Instance) -> dict[str, Any]:
    """Return the facts of one instance: a primary accepts writes; all others replicate from it."""
    server = {**record["server"], "read_only": instance is not primary, "replication": []}
    if instance is not primary:
        server["replication"] = [{**record["server"]["replication"][0], "source_host": primary.address}]
    return {**record, "server": server}


def _schedules(backups: list[Instance], now: datetime, dice: random.Random) -> list[BackupSchedule]:
    schedules = []
    for instance in backups:
        cron, zone = f"{dice.randrange(0, 60, 5)} {dice.randrange(24)} * * *", dice.choice(ZONES)
        schedules.append(
            BackupSchedule(
                name=f"{instance.name}-nightly",
                instance=instance,
                method=dice.choice(("dump", "physical")),
                run_by=dice.choice(("dbops", "external")),
                cron=cron,
                time_zone=zone,
                directory=f"/backup/{instance.name}",
                next_due_at=next_due(cron, zone, now),
            )
        )
    BackupSchedule.objects.bulk_create(schedules, BATCH)
    return schedules


def _runs(schedules: list[BackupSchedule], now: datetime, dice: random.Random) -> None:
    runs = []
    for schedule in schedules:
        hours = dice.uniform(0.5, 9)
        for due in due_times(schedule.cron, schedule.time_zone, now - WEEK):
            if due > now:
                break
            end = due + timedelta(hours=hours * dice.uniform(0.85, 1.3))
            is_over = end <= now
            managed = schedule.run_by == "dbops"
            runs.append(
                BackupRun(
                    uid=uuid.UUID(int=dice.getrandbits(128)).hex,
                    instance=schedule.instance,
                    schedule=schedule,
                    origin="managed" if managed else "observed",
                    method=schedule.method,
                    status=("failed" if dice.random() < 0.04 else "succeeded") if is_over else "running",
                    due_at=due,
                    queued_at=due,
                    started_at=due,
                    last_seen_at=min(end, now),
                    finished_at=end if is_over else None,
                    bytes_written=int(hours * 2e11),
                )
            )
    BackupRun.objects.bulk_create(runs, BATCH)
    going = [run for run in runs if run.status == "running" and run.origin == "managed"]
    Hold.objects.bulk_create(
        [Hold(instance=run.instance, backup_run=run, purpose="backup", taken_at=now) for run in going], BATCH
    )


def _rebuilds(
    clusters: list[Cluster], instances: list[Instance], now: datetime, dice: random.Random, user: User
) -> None:
    by_cluster: dict[int, list[Instance]] = {}
    for instance in instances:
        by_cluster.setdefault(instance.cluster_id, []).append(instance)
    held = set(Hold.objects.values_list("instance_id", flat=True))
    rebuilds, holds = [], []
    for cluster in clusters:
        source, target = by_cluster[cluster.pk][1], by_cluster[cluster.pk][2]
        luck = dice.random()
        if luck < 0.3:
            start = now - timedelta(hours=dice.uniform(8, 160))
            end = start + timedelta(hours=dice.uniform(0.7, 5))
            rebuilds.append(_rebuild(target, source, "succeeded", start, end, user, dice))
        elif luck < 0.33:
            rebuilds.append(_rebuild(target, source, "queued", now - timedelta(minutes=20), None, user, dice))
        elif luck < 0.36 and source.pk not in held:
            rebuild = _rebuild(target, source, "running", now - timedelta(minutes=50), None, user, dice)
            rebuilds.append(rebuild)
            holds += [(source, rebuild, "source"), (target, rebuild, "target")]
    Rebuild.objects.bulk_create(rebuilds, BATCH)
    Hold.objects.bulk_create(
        [Hold(instance=item, rebuild=rebuild, purpose=purpose, taken_at=now) for item, rebuild, purpose in holds], BATCH
    )


def _rebuild(
    target: Instance,
    source: Instance,
    status: str,
    start: datetime,
    end: datetime | None,
    user: User,
    dice: random.Random,
) -> Rebuild:
    name = uuid.UUID(int=dice.getrandbits(128)).hex
    return Rebuild(
        uid=name,
        request_key=name,
        target=target,
        source=source,
        target_slot=None if end else target,
        method="xbstream",
        status=status,
        reason="the disk of the replica died",
        requested_by=user,
        requested_at=start - timedelta(minutes=1),
        started_at=None if status == "queued" else start.astimezone(UTC),
        finished_at=end,
        plan={},
        plan_fingerprint="",
        waiting_for="its source is busy" if status == "queued" else "",
    )
