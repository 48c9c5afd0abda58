"""Find what is to be reported now, from the rows that the pages and the metrics read."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import OuterRef, Subquery
from django.urls import reverse
from django.utils import timezone

from dbops.engine.backups.flags import RunFlag
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.notifications.certificates import ends_soon
from dbops.engine.notifications.events import REPORT, Occurrence
from dbops.engine.restore_tests.due import RestoreState
from dbops.engine.schedule.timeline import can_start
from dbops.engine.states import Approval, RunStatus, Status
from dbops.models import BackupRun, BackupSchedule, NotificationEvent, Rebuild
from dbops.queries.admin.configuration import processes
from dbops.queries.availability.report import last_week
from dbops.queries.capacity import soon_by_cluster
from dbops.queries.certificates import host_certificates, login_certificates, server_authorities
from dbops.queries.fleet.cluster_status import ClusterNow, clusters_now, wanted_replicas
from dbops.queries.monitoring import tick_late_seconds
from dbops.queries.restore_tests import restores

#: What happened longer ago is not reported.
NEWS = timedelta(hours=24)
#: How long after a rebuild its source is watched.
SOURCE_WATCHED = timedelta(days=7)
#: The report is sent so long after the end of its week, when the last day is counted.
REPORT_AFTER = timedelta(hours=6)
SILENT_SECONDS, LATE_SECONDS = 60, 120
PROCESSES = ("worker", "beat")
CERTIFICATE = "certificate.ending"
#: Ends of runs that say something about the next backup.
_BAD_ENDS: dict[str, str] = {RunStatus.MISSED: "backup.missed", RunStatus.FAILED: "backup.failed"}
_SAYING = (RunStatus.SUCCEEDED, *_BAD_ENDS)


def states_now(now: datetime, *, limit_within: timedelta, certificate_within: timedelta) -> list[Occurrence]:
    """Return the states of all kinds that are so now. The number of queries does not depend on the size of the fleet.

    Args:
        limit_within: how near a limit of the capacity is reported.
        certificate_within: how near the end of a certificate is reported.
    """
    clusters = clusters_now(now)
    names = {one.pk: one.name for one in clusters}
    return [
        *_rebuilds(now),
        *_sources(clusters, now),
        *_clusters(clusters),
        *_backups(),
        *_restore_tests(names, now),
        *_limits(names, now, limit_within),
        *_certificates(now, certificate_within),
        *_processes(now),
    ]


def news(now: datetime, since: datetime) -> list[Occurrence]:
    """Return what happened since a time, at most ``NEWS`` ago. One query."""
    first = max(since, now - NEWS)
    columns = ("pk", "status", "error", "target__name", "target__cluster__name")
    ended = Rebuild.objects.filter(finished_at__gte=first, status__in=(Status.SUCCEEDED, Status.FAILED, Status.EXPIRED))
    found = [
        Occurrence(
            "rebuild.done" if status == Status.SUCCEEDED else "rebuild.failed",
            str(pk),
            cluster,
            target,
            f"Rebuild {pk}" + (f", error code {error['code']}" if error.get("code") else ""),
            reverse("rebuild", args=[pk]),
        )
        for pk, status, error, target, cluster in ended.order_by("finished_at").values_list(*columns)
    ]
    monday, span = last_week(now, timezone.get_current_timezone())
    due_at = span.period.end + REPORT_AFTER
    if since <= due_at <= now:
        found.append(Occurrence(REPORT, monday.isoformat(), "", span.title, "", reverse("availability")))
    return found


def _rebuilds(now: datetime) -> Iterator[Occurrence]:
    rows = Rebuild.objects.filter(status__in=(Status.QUEUED, Status.LOST)).order_by("pk")
    columns = ("pk", "status", "approval", "not_before", "target__name", "target__cluster__name")
    for pk, status, approval, not_before, target, cluster in rows.values_list(*columns):
        if status == Status.LOST:
            kind = "rebuild.lost"
        elif approval == Approval.WAITING:
            kind = "rebuild.needs_approval"
        elif not_before is None or not_before <= now:
            kind = "rebuild.waiting"
        else:
            continue
        yield Occurrence(kind, str(pk), cluster, target, f"Rebuild {pk}", reverse("rebuild", args=[pk]))


def _sources(clusters: list[ClusterNow], now: datetime) -> Iterator[Occurrence]:
    """Yield sources that a rebuild left otherwise than it found them, until they replicate again."""
    healthy = {member.pk for one in clusters for member in one.healthy_replicas}
    ended = Rebuild.objects.filter(
        finished_at__gte=now - SOURCE_WATCHED, checkpoint__has_key="source_differs"
    ).order_by("-pk")
    columns = ("pk", "source", "source__name", "source__cluster__name", "checkpoint__source_differs")
    seen: set[int] = set()
    for pk, source, name, cluster, differs in ended.values_list(*columns):
        if source not in seen and differs and source not in healthy:
            yield Occurrence(
                "source.stopped", str(source), cluster, name, f"After rebuild {pk}", reverse("rebuild", args=[pk])
            )
        seen.add(source)


def _clusters(clusters: list[ClusterNow]) -> Iterator[Occurrence]:
    goals = wanted_replicas()
    for one in clusters:
        if one.is_tidb or not one.members:
            continue
        key, page = str(one.pk), reverse("cluster", args=[one.name])
        replicas, healthy = len(one.replicas), len(one.healthy_replicas)
        # What no probe has read lately is not reported as lost: a late probe would report the whole fleet.
        unknown = sum(member.state == "unknown" for member in one.replicas)
        goal = goals.get(one.pk)
        wanted = replicas if goal is None else goal
        counts = f"{healthy} of {wanted} wanted replicas are healthy"
        if not can_start(one.snapshot, METHODS[DEFAULT_METHOD]):
            yield Occurrence("cluster.blocked", key, one.name, one.name, "No rebuild can start", page)
        if healthy + unknown < wanted:
            yield Occurrence("cluster.short", key, one.name, one.name, counts, page)
        if replicas and not healthy and not unknown:
            yield Occurrence("cluster.unprotected", key, one.name, one.name, counts, page)


def _backups() -> Iterator[Occurrence]:
    """Yield enabled schedules whose newest run was missed, has failed or is too small. Two queries."""
    runs = BackupRun.objects.filter(schedule=OuterRef("pk"), status__in=_SAYING).exclude(finished_at=None)
    newest = Subquery(runs.order_by("-finished_at", "-pk").values("pk")[:1])
    schedules = BackupSchedule.objects.filter(is_enabled=True).order_by("name").annotate(newest=newest)
    rows = list(
        schedules.exclude(newest=None).values_list("pk", "name", "instance__name", "instance__cluster__name", "newest")
    )
    keys = [row[-1] for row in rows]
    ends = {
        pk: (status, flags)
        for pk, status, flags in BackupRun.objects.filter(pk__in=keys).values_list("pk", "status", "flags")
    }
    for schedule, name, instance, cluster, run in rows:
        status, flags = ends.get(run, ("", []))
        if status == RunStatus.SUCCEEDED and RunFlag.SMALL not in flags:
            continue
        kind = _BAD_ENDS.get(status, "backup.small")
        page = reverse("backup-run", args=[run])
        yield Occurrence(kind, str(schedule), cluster, instance, f"Schedule {name}, run {run}", page)


def _restore_tests(names: dict[int, str], now: datetime) -> Iterator[Occurrence]:
    for cluster, found in restores(now).items():
        for one in found:
            if one.is_good:
                continue
            kind = "restore_test.failed" if one.state is RestoreState.FAILED else "restore_test.old"
            page = reverse("backup-run", args=[one.run]) if one.run else reverse("cluster", args=[names[cluster]])
            detail = f"Last one on {one.at:%Y-%m-%d}" if one.at else "No restore test yet"
            yield Occurrence(kind, one.age.source, names[cluster], one.age.source, detail, page)


def _limits(names: dict[int, str], now: datetime, within: timedelta) -> Iterator[Occurrence]:
    for cluster, limit in soon_by_cluster(now).items():
        if cluster in names and (limit.first is None or limit.first <= now + within):
            name = names[cluster]
            when = f"on {limit.first:%Y-%m-%d} at the earliest" if limit.first else "reached"
            page = reverse("cluster-capacity", args=[name])
            yield Occurrence(
                "capacity.limit", f"{cluster} {limit.kind}", name, limit.instance, f"{limit.kind}, {when}", page
            )


def _certificates(now: datetime, within: timedelta) -> Iterator[Occurrence]:
    """Yield certificates that end soon. One in a Vault that is away stays as it was: it was not replaced."""
    logins = login_certificates()
    for one in logins.found:
        if one.since and ends_soon(one.since, one.until, now, within):
            cluster = next(iter(one.clusters)) if len(one.clusters) == 1 else ""
            others = f" and {len(one.hosts) - 1} more" if len(one.hosts) > 1 else ""
            detail = f"SSH certificate, until {one.until:%Y-%m-%d %H:%M} UTC"
            yield Occurrence(CERTIFICATE, one.key, cluster, one.hosts[0] + others, detail, reverse("credentials"))
    for shown in host_certificates():
        if ends_soon(shown.since, shown.until, now, within):
            cluster = next(iter(shown.clusters)) if len(shown.clusters) == 1 else ""
            detail = f"SSH host certificate, until {shown.until:%Y-%m-%d %H:%M} UTC"
            yield Occurrence(
                CERTIFICATE, f"host {shown.pk}", cluster, shown.host, detail, reverse("host-key", args=[shown.host])
            )
    for ca in server_authorities():
        if ends_soon(ca.since, ca.until, now, within):
            page = reverse("inventory-edit", args=["cluster", ca.cluster])
            detail = f"CA of the servers, until {ca.until:%Y-%m-%d %H:%M} UTC"
            yield Occurrence(CERTIFICATE, f"ca {ca.pk}", ca.cluster, ca.cluster, detail, page)
    if not logins.is_complete:
        columns = ("slot", "cluster", "subject", "detail", "path")
        for slot, *rest in NotificationEvent.objects.filter(kind=CERTIFICATE, resolved_at=None).values_list(*columns):
            yield Occurrence(CERTIFICATE, slot.partition("|")[2], *rest)


def _processes(now: datetime) -> Iterator[Occurrence]:
    page = reverse("settings")
    beats, _ = processes()
    for name in PROCESSES:
        seen = beats.get(name)
        if seen is None or (now - seen).total_seconds() > SILENT_SECONDS:
            yield Occurrence("dashboard.process_silent", name, "", name, "No heartbeat for 60 s", page)
    if tick_late_seconds(now) > LATE_SECONDS:
        yield Occurrence("dashboard.ticks_late", "ticks", "", "ticks", f"More than {LATE_SECONDS} s late", page)
