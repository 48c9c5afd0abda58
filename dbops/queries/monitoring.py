"""Read the state of the fleet and of dbops itself as metrics: one number for each name and set of labels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Count, Max, Min, OuterRef, Subquery

from dbops import __version__
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.schedule.calendar import Interval
from dbops.engine.schedule.timeline import can_start
from dbops.engine.states import ACTIVE, FINAL, REPLICAS, Approval, RunStatus, Status, StepState
from dbops.models import (
    BackupRun,
    BackupSchedule,
    Hold,
    Instance,
    InstanceState,
    LoadTest,
    Rebuild,
    RebuildStep,
    RestoreTest,
)
from dbops.queries.admin.configuration import processes
from dbops.queries.audit.sinks import sinks
from dbops.queries.availability.overview import sums
from dbops.queries.availability.sums import totals
from dbops.queries.capacity import soon_by_cluster
from dbops.queries.certificates import host_certificates, login_certificates, server_authorities
from dbops.queries.fleet.cluster_status import ClusterNow, clusters_now, wanted_replicas
from dbops.queries.notifications.channels import channels

#: Period of the sums of gaps. Rebuilds ended longer ago than this are not counted: rows of old ones are removed.
GAP_PERIOD = timedelta(days=7)

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: ``name`` in Prometheus' style, with its unit, and its samples."""

    name: str
    help: str
    is_counter: bool = False
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, value: float | None, **labels: str) -> None:
        """Add a sample; an unknown value is none."""
        if value is not None:
            self.samples.append((labels, float(value)))


def metrics(now: datetime) -> Iterator[Metric]:
    """Yield all metrics. The number of queries does not depend on the size of the fleet."""
    yield _build()
    clusters = clusters_now(now)
    yield from _clusters(clusters, now)
    yield from _instances(clusters, now)
    yield from _backups()
    yield from _rebuilds(clusters, now)
    yield from _capacity(clusters, now)
    yield from _processes(now)
    yield from _sinks()
    yield from _channels()
    yield from _certificates()


def _build() -> Metric:
    metric = Metric("dbops_build_info", "Version of dbops.")
    metric.add(1, version=__version__)
    return metric


def _clusters(clusters: list[ClusterNow], now: datetime) -> Iterator[Metric]:
    replicas = Metric("dbops_cluster_replicas", "Replicas and backup instances in the inventory.")
    healthy = Metric("dbops_cluster_replicas_healthy", "Those that replicate and answer.")
    wanted = Metric("dbops_cluster_replicas_wanted", "How many of them the cluster shall have healthy.")
    ready = Metric(
        "dbops_cluster_rebuild_ready",
        "1 if a rebuild can start now, 0 if a backup, a job or the lack of a source blocks it.",
    )
    goals = wanted_replicas()
    for one in clusters:
        if one.is_tidb:
            continue
        count, goal = len(one.replicas), goals.get(one.pk)
        replicas.add(count, cluster=one.name)
        healthy.add(len(one.healthy_replicas), cluster=one.name)
        wanted.add(count if goal is None else goal, cluster=one.name)
        ready.add(can_start(one.snapshot, METHODS[DEFAULT_METHOD]), cluster=one.name)
    yield from (replicas, healthy, wanted, ready, _gaps(clusters, now))


def _gaps(clusters: list[ClusterNow], now: datetime) -> Metric:
    metric = Metric(
        "dbops_cluster_gap_seconds",
        "Seconds of the last 7 days with a gap: not_rebuildable is blocked time, short is redundancy debt.",
    )
    period = Interval(now - GAP_PERIOD, now)
    found = totals([one.pk for one in clusters if not one.is_tidb], period, now)
    for one in clusters:
        for total in sums(found.get(one.pk, {}), period) if one.pk in found else ():
            metric.add(total.seconds, cluster=one.name, gap=total.gap.name.lower())
    return metric


def _instances(clusters: list[ClusterNow], now: datetime) -> Iterator[Metric]:
    state = Metric("dbops_instance_state", "1 for the current state of an instance, as the fleet page shows it.")
    lag = Metric("dbops_instance_lag_seconds", "Replication lag at the last probe.")
    age = Metric("dbops_instance_probe_age_seconds", "Age of the facts of an instance.")
    late = Metric("dbops_probe_late_seconds", "How long the most overdue probe has been due.")
    for one in clusters:
        for member in one.members:
            labels = {"cluster": one.name, "instance": member.name, "role": str(member.role)}
            state.add(1, **labels, state=member.state)
            if member.role in REPLICAS and member.summary:
                lag.add(member.summary.lag_seconds, **labels)
    states = InstanceState.objects.order_by().values_list("instance__name", "instance__cluster__name", "observed_at")
    for name, cluster, seen in states:
        if seen is not None:
            age.add(max(0.0, (now - seen).total_seconds()), cluster=cluster, instance=name)
    due: datetime | None = InstanceState.objects.aggregate(first=Min("probe_due_at"))["first"]
    late.add(max(0.0, (now - due).total_seconds()) if due else 0.0)
    yield from (state, lag, age, late)


def _backups() -> Iterator[Metric]:
    good = Metric("dbops_backup_last_success_timestamp_seconds", "End of the newest successful backup of an instance.")
    size = Metric("dbops_backup_last_success_bytes", "Size of that backup.")
    failed = Metric("dbops_backup_last_failure_timestamp_seconds", "End of the newest failed or missed backup.")
    planned = Metric("dbops_backup_schedules", "Enabled backup schedules of an instance.")
    runs = BackupRun.objects.filter(instance=OuterRef("pk")).exclude(finished_at=None).order_by("-started_at")
    succeeded = runs.filter(status=RunStatus.SUCCEEDED, started_at__isnull=False)
    # A missed run has no start.
    ended_badly = runs.filter(status__in=(RunStatus.FAILED, RunStatus.MISSED)).order_by("-finished_at")
    rows = Instance.objects.order_by().annotate(
        good_at=Subquery(succeeded.values("finished_at")[:1]),
        good_bytes=Subquery(succeeded.values("bytes_written")[:1]),
        bad_at=Subquery(ended_badly.values("finished_at")[:1]),
    )
    names: dict[int, Labels] = {}
    columns = ("pk", "name", "cluster__name", "good_at", "good_bytes", "bad_at")
    for key, name, cluster, good_at, good_bytes, bad_at in rows.values_list(*columns):
        labels = names[key] = {"cluster": cluster, "instance": name}
        good.add(good_at.timestamp() if good_at else None, **labels)
        size.add(good_bytes if good_at else None, **labels)
        failed.add(bad_at.timestamp() if bad_at else None, **labels)
    schedules = BackupSchedule.objects.filter(is_enabled=True).order_by().values("instance").annotate(count=Count("pk"))
    for key, count in schedules.values_list("instance", "count"):
        planned.add(count, **names[key])
    yield from (good, size, failed, planned, *_restore_tests(names))


def _restore_tests(names: Mapping[int, Labels]) -> Iterator[Metric]:
    good = Metric(
        "dbops_restore_test_last_success_timestamp_seconds", "End of the newest successful restore test of an instance."
    )
    bad = Metric(
        "dbops_restore_test_last_failure_timestamp_seconds", "End of the newest failed restore test of an instance."
    )
    ended = (
        RestoreTest.objects.exclude(finished_at=None)
        .order_by()
        .values("source", "status")
        .annotate(at=Max("finished_at"))
    )
    for key, status, at in ended.values_list("source", "status", "at"):
        metric = {"succeeded": good, "failed": bad}.get(status)
        if metric is not None:
            metric.add(at.timestamp(), **names[key])
    yield from (good, bad)


def _rebuilds(clusters: list[ClusterNow], now: datetime) -> Iterator[Metric]:
    active = Metric("dbops_rebuilds", "Rebuilds that have not ended.")
    ended = Metric("dbops_rebuilds_ended_total", "Rebuilds that have ended.", is_counter=True)
    waits = Metric("dbops_queue_oldest_seconds", "How long the oldest queued rebuild has waited.")
    approval = Metric("dbops_rebuilds_waiting_for_approval", "Queued rebuilds that need another person's approval.")
    holds = Metric("dbops_holds", "Instances that a rebuild or backup holds for itself, by purpose.")
    counts = dict.fromkeys(((one.name, str(status)) for one in clusters if not one.is_tidb for status in Status), 0)
    found = Rebuild.objects.order_by().values("target__cluster__name", "status").annotate(count=Count("pk"))
    for cluster, status, count in found.values_list("target__cluster__name", "status", "count"):
        counts[cluster, status] = count
    for (cluster, status), count in counts.items():
        # From 0 on, so that the first one is an increase.
        (ended if status in FINAL else active).add(count, cluster=cluster, status=status)
    queued = Rebuild.objects.filter(status=Status.QUEUED)
    first = queued.aggregate(first=Min("requested_at"))["first"]
    waits.add((now - first).total_seconds() if first else 0.0)
    approval.add(queued.filter(approval=Approval.WAITING).count())
    held = dict(Hold.objects.order_by().values_list("purpose").annotate(count=Count("pk")))
    for purpose in ("source", "target", "backup"):
        holds.add(held.get(purpose, 0), purpose=purpose)
    yield from (active, ended, waits, approval, holds, *_steps(now))


def _steps(now: datetime) -> Iterator[Metric]:
    """Yield what running steps do. A step's labels name one rebuild: their number is that of the rebuilds at work."""
    seconds = Metric("dbops_rebuild_step_seconds", "How long the running step of a rebuild has run.")
    done = Metric("dbops_rebuild_step_ratio", "Progress of the running step, 0 to 1.")
    rate = Metric("dbops_rebuild_step_bytes_per_second", "Rate of the running copy.")
    left = Metric("dbops_rebuild_step_eta_seconds", "Expected remaining time of the running step.")
    columns = (
        "rebuild_id",
        "rebuild__target__cluster__name",
        "rebuild__target__name",
        "name",
        "started_at",
        "progress",
    )
    running = RebuildStep.objects.filter(rebuild__status__in=ACTIVE, state=StepState.RUNNING).order_by(
        "rebuild", "position"
    )
    for pk, cluster, target, step, started, progress in running.values_list(*columns):
        labels = {"rebuild": str(pk), "cluster": cluster, "instance": target, "step": step}
        seconds.add(max(0.0, (now - started).total_seconds()) if started else None, **labels)
        percent = progress.get("percent")
        done.add(percent / 100 if percent is not None else None, **labels)
        rate.add(progress.get("rate_bytes_per_second"), **labels)
        left.add(progress.get("eta_seconds"), **labels)
    yield from (seconds, done, rate, left)


def _capacity(clusters: list[ClusterNow], now: datetime) -> Iterator[Metric]:
    metric = Metric(
        "dbops_cluster_limit_timestamp_seconds", "When a cluster reaches its first limit, if that is within 90 days."
    )
    names = {one.pk: one.name for one in clusters}
    for key, limit in soon_by_cluster(now).items():
        if key in names:
            metric.add((limit.first or now).timestamp(), cluster=names[key], limit=str(limit.kind))
    yield metric


def _sinks() -> Iterator[Metric]:
    waiting = Metric("dbops_audit_sink_waiting", "Audit entries that a sink does not have yet.")
    dropped = Metric(
        "dbops_audit_sink_dropped_total", "Audit entries that left the log before a sink had them.", is_counter=True
    )
    sent = Metric("dbops_audit_sink_last_sent_timestamp_seconds", "When a sink last took entries.")
    for one in sinks():
        waiting.add(one.waiting, sink=one.sink.name)
        dropped.add(one.sink.dropped, sink=one.sink.name)
        sent.add(one.sink.sent_at.timestamp() if one.sink.sent_at else None, sink=one.sink.name)
    yield from (waiting, dropped, sent)


def _certificates() -> Iterator[Metric]:
    """Yield when certificates begin and end; 0 for one that cannot be used."""
    begin = Metric("dbops_ssh_certificate_start_timestamp_seconds", "When the SSH certificate of a host begins.")
    end = Metric("dbops_ssh_certificate_end_timestamp_seconds", "When the SSH certificate of a host ends.")
    for one in login_certificates().found:
        for host in one.hosts:
            begin.add(one.since.timestamp() if one.since else 0, host=host)
            end.add(one.until.timestamp() if one.until else None if one.key else 0, host=host)
    first = Metric(
        "dbops_ssh_host_certificate_start_timestamp_seconds", "When the certificate that proves a host begins."
    )
    shown = Metric("dbops_ssh_host_certificate_end_timestamp_seconds", "When the certificate that proves a host ends.")
    for one_host in host_certificates():
        first.add(one_host.since.timestamp(), host=one_host.host)
        shown.add(one_host.until.timestamp() if one_host.until else None, host=one_host.host)
    authority = Metric("dbops_tls_ca_end_timestamp_seconds", "When the first CA of a cluster's servers ends.")
    for ca in server_authorities():
        authority.add(ca.until.timestamp(), cluster=ca.cluster)
    yield from (begin, end, first, shown, authority)


def _processes(now: datetime) -> Iterator[Metric]:
    age = Metric("dbops_heartbeat_age_seconds", "Time since the last sign of life of workers and beat.")
    dropped = Metric("dbops_dropped_messages_total", "Messages in the queue that dbops had not sent.", is_counter=True)
    late = Metric("dbops_tick_late_seconds", "How long the most overdue tick of a job has been due.")
    beats, count = processes()
    for name, at in beats.items():
        age.add(max(0.0, (now - at).total_seconds()), process=name)
    dropped.add(count)
    late.add(tick_late_seconds(now))
    yield from (age, dropped, late)


def tick_late_seconds(now: datetime) -> float:
    """Return how long the most overdue tick of a job has been due. Four queries."""
    due = [
        model._default_manager.filter(next_tick_at__lte=now).aggregate(first=Min("next_tick_at"))["first"]
        for model in (Rebuild, BackupRun, RestoreTest, LoadTest)
    ]
    return max(((now - one).total_seconds() for one in due if one), default=0.0)


def _channels() -> Iterator[Metric]:
    sent = Metric("dbops_notifications_sent_total", "Messages that a channel has taken.", is_counter=True)
    failed = Metric("dbops_notifications_failed_total", "Messages that dbops gave up.", is_counter=True)
    waiting = Metric("dbops_notifications_waiting", "Events that are due for a channel and not sent.")
    for one in channels():
        sent.add(one.channel.sent_count, channel=one.channel.name)
        failed.add(one.channel.failed_count, channel=one.channel.name)
        waiting.add(one.waiting, channel=one.channel.name)
    yield from (sent, failed, waiting)
