"""Start conditions other than holds: approval, external backups, maintenance, topology. Reads tables only.

Holds cover jobs of dbops. An external backup holds nothing, and maintenance or a topology difference is no job: their effect is
in the table that the pages show (``engine.schedule.conflicts``).
"""

from collections import defaultdict
from datetime import datetime

from django.db.models import Q, QuerySet

from dbops.engine.methods import METHODS, method_named
from dbops.engine.schedule.conflicts import Activity, of_backup
from dbops.engine.states import RUN_AT_WORK, Approval, BackupMethod, RunOrigin, Status
from dbops.loaders.cluster_snapshots import differences
from dbops.models import BackupRun, Maintenance, Rebuild


def unmet_conditions(now: datetime, rebuild_id: int | None = None) -> dict[int, str]:
    """Return the unmet start conditions of each queued rebuild in words, by its primary key. Five queries at most.

    Args:
        rebuild_id: check only this one, in any status: during its start it is no longer queued.
    """
    rebuilds = (
        Rebuild.objects.filter(status=Status.QUEUED) if rebuild_id is None else Rebuild.objects.filter(pk=rebuild_id)
    )
    closed: dict[int, list[str]] = defaultdict(list)
    _close_for_approval(rebuilds, closed)
    _close_for_runs(rebuilds, closed)
    _close_for_clusters(rebuilds, closed, now)
    return {pk: "; ".join(reasons) for pk, reasons in closed.items()}


def _close_for_approval(rebuilds: QuerySet[Rebuild], closed: dict[int, list[str]]) -> None:
    waiting = rebuilds.filter(approval=Approval.WAITING).order_by("pk")
    for pk, asked_by in waiting.values_list("pk", "requested_by__username"):
        closed[pk].append(f"approval by other people than {asked_by}")


def _close_for_runs(rebuilds: QuerySet[Rebuild], closed: dict[int, list[str]]) -> None:
    runs: dict[int, list[tuple[str, int, str]]] = defaultdict(list)
    external = BackupRun.objects.filter(status__in=RUN_AT_WORK).exclude(origin=RunOrigin.MANAGED).order_by("pk")
    for instance, name, pk, method in external.values_list("instance", "instance__name", "pk", "method"):
        runs[instance].append((name, pk, method))
    if not runs:
        return
    queued = rebuilds.filter(Q(source__in=runs) | Q(target__in=runs)).order_by("pk")
    for pk, source, target, method in queued.values_list("pk", "source", "target", "method"):
        for name, run, _ in runs.get(target, ()):
            if _stops(method, Activity.TARGET_BACKUP):
                closed[pk].append(f"external backup run {run} of {name}")
        for name, run, how in runs.get(source, ()) if method_named(method).reads_source else ():
            if _stops(method, of_backup(is_dump=how == BackupMethod.DUMP, is_managed=False)):
                closed[pk].append(f"external backup run {run} of {name}")


def _close_for_clusters(rebuilds: QuerySet[Rebuild], closed: dict[int, list[str]], now: datetime) -> None:
    """Add maintenance and topology differences. Follow-ups are exempt: a person requested them to repair the target."""
    reasons: dict[int, list[tuple[Activity, str]]] = defaultdict(list)
    current = Maintenance.objects.filter(Q(ends_at=None) | Q(ends_at__gt=now), starts_at__lte=now).order_by("pk")
    for cluster, name, reason in current.values_list("cluster", "cluster__name", "reason"):
        reasons[cluster].append((Activity.MAINTENANCE, f"maintenance of {name}: {reason.rstrip('.')}"))
    for cluster, difference in differences().items():
        reasons[cluster].append((Activity.TOPOLOGY, difference.text.rstrip(".")))
    if not reasons:
        return
    queued = rebuilds.filter(target__cluster__in=reasons, method__in=list(METHODS))
    for pk, cluster, method in queued.order_by("pk").values_list("pk", "target__cluster", "method"):
        closed[pk] += [text for work, text in reasons[cluster] if _stops(method, work)]


def _stops(method: str, work: Activity) -> bool:
    return not method_named(method).may_start_alongside(work)
