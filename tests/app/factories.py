"""Rows and values for tests: plain functions with defaults that hold together; say only what a test is about."""

import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from django.utils import timezone

from dbops.engine.facts.instance import (
    Client,
    ConfigFacts,
    DatadirFacts,
    HostFacts,
    InstanceFacts,
    ProbeProblem,
    ReplicationFacts,
    ServerFacts,
    StatementCheck,
    Tool,
    to_record,
)
from dbops.engine.facts.server_kind import ServerKind
from dbops.engine.facts.stored_data import StoredData, StoredFiles
from dbops.engine.rebuilds.plan import Finding, Plan, PlannedCommand, PlannedInstance, PlannedStep
from dbops.engine.states import FINAL, Severity, Status, StepState
from dbops.models import (
    BackupRun,
    BackupSchedule,
    Cluster,
    Host,
    Instance,
    InstancePeriod,
    InstanceState,
    Rebuild,
    RebuildEvent,
    RebuildStep,
)
from dbops.security.permissions import OPERATOR, VIEWER, make_groups

GIB = 1024**3
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKyvBwdLEBYzocN6JYomZUYfs2Btec82Z1MVuIfQKnsV"
STEPS = (
    ("preflight", "Check both machines once more"),
    ("open-access", "Open the source and arm the guard"),
    ("swap-datadir", "Stop the target and move its data aside"),
    ("stream", "Stream the backup into the data directory"),
    ("release", "Release the source"),
    ("prepare", "Prepare the data"),
    ("set-ownership", "Give the data to the server's user"),
    ("start", "Start the server"),
    ("catch-up", "Catch up with the source"),
    ("repoint", "Replicate from the primary"),
    ("verify", "Verify that it stays in step"),
    ("clean-up", "Clean up"),
)


def make_user(name: str, group: str | None = None) -> User:
    """Return a user in a group: ``operator``, ``viewer`` or none."""
    make_groups()
    user = User.objects.create_user(name, password="correct horse battery")
    if group:
        user.groups.add(Group.objects.get(name=group))
    return user


def make_operator(name: str = "olga") -> User:
    return make_user(name, OPERATOR)


def make_viewer(name: str = "victor") -> User:
    return make_user(name, VIEWER)


def make_cluster(name: str = "shop", **values: Any) -> Cluster:
    return Cluster.objects.create(name=name, **values)


def make_host(name: str = "db-1", **values: Any) -> Host:
    given: dict[str, Any] = {"ssh_address": f"{name}.example", "host_key": HOST_KEY} | values
    return Host.objects.create(name=name, **given)


def make_instance(
    name: str, *, cluster: Cluster, role: str = "replica", facts: InstanceFacts | None = None, **values: Any
) -> Instance:
    """Return an instance on a host of its own; with ``facts`` also the state that a probe would have left."""
    host = values.pop("host", None) or make_host(f"host-{name}")
    given: dict[str, Any] = {"address": f"{name}.example", "systemd_unit": "mariadb.service"} | values
    instance = Instance.objects.create(name=name, cluster=cluster, host=host, role=role, **given)
    if facts:
        set_facts(instance, facts)
    return instance


def set_facts(instance: Instance, facts: InstanceFacts) -> InstanceState:
    """Leave facts as the prober would."""
    state, _ = InstanceState.objects.update_or_create(
        instance=instance,
        defaults={**InstanceState.columns(facts), "probe_due_at": timezone.now()},
    )
    return state


def make_trio(name: str = "shop") -> tuple[Instance, Instance, Instance]:
    """Return a primary, a backup instance and a replica of one cluster, all in health."""
    cluster = make_cluster(name)
    primary_name, backup_name, replica_name = ("primary-1", "backup-1", "replica-1")
    if name != "shop":
        primary_name, backup_name, replica_name = (
            f"{name}-{item}" for item in (primary_name, backup_name, replica_name)
        )
    primary = make_instance(
        primary_name, cluster=cluster, role="primary", facts=make_facts(read_only=False, server_id=1)
    )
    from_primary = make_channel(source_host=primary.address)
    backup = make_instance(
        backup_name, cluster=cluster, role="backup", facts=make_facts(server_id=2, replication=(from_primary,))
    )
    replica = make_instance(replica_name, cluster=cluster, facts=make_facts(server_id=3, replication=(from_primary,)))
    return primary, backup, replica


def make_period(
    instance: Instance, state: str, started_at: datetime, ended_at: datetime | None = None, **values: Any
) -> InstancePeriod:
    return InstancePeriod.objects.create(
        cluster=instance.cluster,
        instance=instance,
        name=instance.name,
        role=instance.role,
        state=state,
        started_at=started_at,
        ended_at=ended_at,
        **values,
    )


def make_watched_trio(
    *, since: datetime, away: datetime, back: datetime, now: datetime
) -> tuple[Instance, Instance, Instance]:
    """Return a trio that is healthy since a time, but for its replica, which was unreachable for a while."""
    trio = make_trio()
    for instance in trio:
        cuts: list[tuple[str, datetime, datetime | None]] = [("healthy", since, None)]
        if instance.name == "replica-1":
            cuts = [("healthy", since, away), ("unreachable", away, back), ("healthy", back, None)]
        for state, start, end in cuts:
            make_period(instance, state, start, end)
        InstanceState.objects.filter(instance=instance).update(observed_at=now)
    return trio


def make_channel(**values: Any) -> ReplicationFacts:
    """Return a replication connection that runs without lag."""
    given: dict[str, Any] = {
        "channel": "",
        "source_host": "primary-1.example",
        "source_port": 3306,
        "io_running": "Yes",
        "sql_running": "Yes",
        "lag_seconds": 0.0,
        "uses_gtid": True,
        "gtid_position": "0-1-1000",
        "relay_source_log_file": "bin.000007",
        "exec_source_log_pos": 4711,
    }
    return ReplicationFacts(**(given | values))


def make_host_facts(**values: Any) -> HostFacts:
    given: dict[str, Any] = {
        "hostname": "db-1",
        "machine_id": uuid.uuid4().hex,
        "local_address": "10.0.0.1",
        "cpu_count": 16,
        "memory_available_bytes": 48 * GIB,
        "has_aes": True,
        "ssh_ciphers": ("aes128-gcm@openssh.com",),
        "open_files_limit": 65536,
        "clock_offset_seconds": 0.0,
        "tools": {
            "mariadb-backup": Tool("/usr/bin/mariadb-backup", "10.11.19"),
            "mbstream": Tool("/usr/bin/mbstream", "10.11.19"),
            "mariadb": Tool("/usr/bin/mariadb", "10.11.19"),
        }
        | {
            name: Tool(f"/usr/bin/{name}")
            for name in ("bash", "flock", "setsid", "setpriv", "ssh", "ssh-keygen", "sshd")
        },
        "has_systemd": True,
    }
    return HostFacts(**(given | values))


def make_datadir_facts(**values: Any) -> DatadirFacts:
    given: dict[str, Any] = {
        "path": "/var/lib/mysql",
        "exists": True,
        "is_empty": False,
        "is_mount_point": False,
        "identity": "64769:1835010",
        "owner": "mysql",
        "filesystem": "xfs",
        "free_bytes": 2400 * GIB,
        "data_bytes": 1480 * GIB,
        "total_bytes": 1530 * GIB,
        "stored": StoredFiles(links=()),
    }
    return DatadirFacts(**(given | values))


def make_server_facts(**values: Any) -> ServerFacts:
    given: dict[str, Any] = {
        "flavor": "mariadb",
        "version": "10.11.19",
        "version_comment": "MariaDB Server",
        "server_id": 3,
        "server_uuid": "",
        "hostname": "db-1",
        "port": 3306,
        "socket": "/run/mysqld/mysqld.sock",
        "datadir": "/var/lib/mysql/",
        "read_only": True,
        "log_bin": True,
        "log_replica_updates": True,
        "gtid_enabled": True,
        "gtid_executed": "0-1-1000",
        "gtid_binlog": "0-1-1000",
        "binlog_format": "ROW",
        "binlog_expire_seconds": 7 * 86400,
        "page_size": 16384,
        "lower_case_table_names": 0,
        "redo_capacity_bytes": 4 * GIB,
        "redo_lsn": 123456789,
        "uptime_seconds": 86400 * 31,
        "parallel_workers": 4,
        "kind": ServerKind("MariaDB"),
        "innodb_bytes": 1470 * GIB,
        "stored": StoredData(plugin_dir="/usr/lib/mysql/plugin", has_time_zones=True),
        "clients": (Client("shop", "10.0.1.7", "shop", "Sleep"),),
    }
    return ServerFacts(**(given | values))


def make_facts(
    *,
    observed_at: datetime | None = None,
    host: HostFacts | None = None,
    datadir: DatadirFacts | None = None,
    server: ServerFacts | None = None,
    **server_values: Any,
) -> InstanceFacts:
    """Return the facts of an instance in health; other keywords change its server's facts."""
    return InstanceFacts(
        observed_at=observed_at or timezone.now(),
        host=host or make_host_facts(),
        datadir=datadir or make_datadir_facts(),
        config=ConfigFacts(
            server_id=server_values.get("server_id", 3),
            port=3306,
            socket="/run/mysqld/mysqld.sock",
            datadir="/var/lib/mysql",
            read_only=True,
            skip_replica_start=False,
        ),
        server=server or make_server_facts(**server_values),
        backup_account=(StatementCheck("BACKUP STAGE START"),),
    )


def make_unreachable(code: str = "mysql.unreachable", text: str = "Connection refused") -> InstanceFacts:
    """Return the facts of a host that answers and a server that does not."""
    return replace(make_facts(), server=None, server_problem=ProbeProblem(code, text))


def make_party(instance: Instance, **values: Any) -> PlannedInstance:
    given: dict[str, Any] = {
        "name": instance.name,
        "role": instance.role,
        "host": instance.host.name,
        "host_key_fingerprint": "SHA256:q3vX0aP2m1sC4uY7",
        "ssh_address": instance.host.ssh_address,
        "ssh_port": 22,
        "ssh_user": "root",
        "address": instance.address,
        "port": instance.port,
        "datadir": instance.datadir,
        "datadir_identity": "64769:1835010",
        "defaults_file": instance.defaults_file,
        "os_user": "mysql",
        "configured_server_id": instance.pk,
        "start_command": "/usr/bin/systemctl start mariadb.service",
        "stop_command": "/usr/bin/systemctl stop mariadb.service",
        "is_answering": True,
        "server_id": instance.pk,
        "version": "10.11.19",
    }
    return PlannedInstance(**(given | values))


def make_finding(severity: Severity = Severity.OK, **values: Any) -> Finding:
    given: dict[str, Any] = {
        "code": f"check.{severity}",
        "title": "Versions",
        "seen": "10.11.19 on both",
        "advice": "",
    }
    return Finding(severity=severity, **(given | values))


def make_plan(*, target: Instance, source: Instance, primary: Instance | None = None, **values: Any) -> Plan:
    """Return a plan that may be confirmed; keywords change it."""
    steps = tuple(
        PlannedStep(name, title, (PlannedCommand(target.name, f"/bin/true # {name}"),)) for name, title in STEPS
    )
    given: dict[str, Any] = {
        "method": "xbstream",
        "target": make_party(target),
        "source": make_party(source),
        "primary": make_party(primary or source),
        "flavor": "mariadb",
        "findings": (make_finding(),),
        "steps": steps,
        "destroys": (f"The data directory {target.datadir} on {target.host.name} is moved aside.",),
        "old_data": "aside",
        "aside_path": f"{target.datadir}.dbops-old-RUN",
        "keep_old_data": False,
        "pause_source": False,
        "pause_reason": "GTID positions and InnoDB alone: replication on the source continues.",
        "cipher": "aes128-gcm@openssh.com",
        "parallel": 4,
        "prepare_memory_bytes": 8 * GIB,
        "prepare_reasons": ("8 GiB for 3 GiB of redo log: what fits at once is one batch.",),
        "bytes_to_copy": 1480 * GIB,
        "predicted_seconds": None,
        "uses_gtid": True,
    }
    return Plan(**(given | values))


def make_rebuild(
    *,
    target: Instance,
    source: Instance,
    status: Status = Status.RUNNING,
    requested_by: User | None = None,
    plan: Plan | None = None,
    **values: Any,
) -> Rebuild:
    """Return a rebuild with its steps, all pending. It holds nothing: tests about holds add them."""
    now = timezone.now()
    plan = plan or make_plan(target=target, source=source)
    user = requested_by or User.objects.filter(username="olga").first() or make_operator()
    started = None if status in (Status.QUEUED, Status.EXPIRED) else now - timedelta(minutes=10)
    given: dict[str, Any] = {
        "uid": uuid.uuid4().hex,
        "request_key": str(uuid.uuid4()),
        "target_slot": None if status in FINAL else target,
        "method": plan.method,
        "reason": "the disk of the replica died",
        "requested_at": now - timedelta(minutes=11),
        "started_at": started,
        "finished_at": now if status in FINAL else None,
        "plan": to_record(plan),
        "plan_fingerprint": plan.fingerprint,
        "revision": 1,
    }
    rebuild = Rebuild.objects.create(target=target, source=source, status=status, requested_by=user, **(given | values))
    RebuildStep.objects.bulk_create(
        RebuildStep(rebuild=rebuild, position=position, name=step.name, title=step.title, state=StepState.PENDING)
        for position, step in enumerate(plan.steps)
    )
    return rebuild


def make_event(rebuild: Rebuild, text: str, **values: Any) -> RebuildEvent:
    given: dict[str, Any] = {"at": timezone.now(), "level": "info"} | values
    return RebuildEvent.objects.create(rebuild=rebuild, text=text, **given)


def make_schedule(instance: Instance, name: str = "", **values: Any) -> BackupSchedule:
    """Return a nightly physical backup at 02:30 UTC that an outside cron runs; keywords change it."""
    given: dict[str, Any] = {"method": "physical", "run_by": "external", "cron": "30 2 * * *"} | values
    return BackupSchedule.objects.create(name=name or f"{instance.name}-nightly", instance=instance, **given)


def make_run(instance: Instance, *, started_at: datetime, seconds: float | None = None, **values: Any) -> BackupRun:
    """Return a backup run that was observed: over after ``seconds``, without them running still."""
    finished = None if seconds is None else started_at + timedelta(seconds=seconds)
    given: dict[str, Any] = {
        "uid": uuid.uuid4().hex,
        "origin": "observed",
        "method": "physical",
        "status": "running" if seconds is None else "succeeded",
        "last_seen_at": finished or timezone.now(),
    }
    return BackupRun.objects.create(instance=instance, started_at=started_at, finished_at=finished, **(given | values))
