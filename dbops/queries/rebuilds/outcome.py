"""Read the summary of an ended rebuild."""

from dbops.engine.methods import METHODS
from dbops.engine.rebuilds.comparison import PastCopy, RebuildComparison, StepComparison, dumps_of
from dbops.engine.states import BackupMethod, RunStatus, Status, StepState
from dbops.models import BackupRun, Rebuild, RebuildStep
from dbops.queries.rebuilds.pages import RebuildPage, StepRow

OTHERS_SHOWN = 5
DUMPS_COUNTED = 10


def comparison(page: RebuildPage) -> RebuildComparison | None:
    """Return the summary of a rebuild that ran and has ended, else ``None``. Three queries, without a summary none."""
    rebuild = page.rebuild
    if not rebuild.is_final or not rebuild.started_at or not rebuild.finished_at:
        return None
    copy = next((row for row in page.steps if row.step.name == "stream"), None)
    return RebuildComparison(
        steps=tuple(_step_time(row) for row in page.steps),
        seconds=(rebuild.finished_at - rebuild.started_at).total_seconds(),
        bytes=copy.bytes if copy else None,
        rate=copy.average if copy else None,
        others=_others(rebuild) if rebuild.method in METHODS else None,
        dumps=dumps_of(_dump_seconds(rebuild)) if rebuild.method in METHODS else None,
    )


def _step_time(row: StepRow) -> StepComparison:
    step = row.step
    ran = (step.finished_at - step.started_at).total_seconds() if step.started_at and step.finished_at else None
    return StepComparison(step.name, step.title, StepState(step.state), ran, step.predicted_seconds)


def _others(rebuild: Rebuild) -> tuple[PastCopy, ...]:
    """Return the last successful rebuilds of this cluster before this one, newest first. Two queries."""
    rows = Rebuild.objects.filter(
        target__cluster=rebuild.target.cluster_id,
        status=Status.SUCCEEDED,
        method=rebuild.method,
        started_at__isnull=False,
        finished_at__lt=rebuild.finished_at,
    ).exclude(pk=rebuild.pk)
    found = list(
        rows.order_by("-finished_at").values_list("pk", "target__name", "started_at", "finished_at")[:OTHERS_SHOWN]
    )
    copies = dict(
        RebuildStep.objects.filter(rebuild__in=[row[0] for row in found], name="stream").values_list(
            "rebuild", "progress"
        )
    )
    return tuple(
        PastCopy(
            number=pk,
            target=target,
            seconds=(finished - started).total_seconds(),
            bytes=(copies.get(pk) or {}).get("bytes"),
            rate=(copies.get(pk) or {}).get("average_bytes_per_second"),
        )
        for pk, target, started, finished in found
        if started and finished
    )


def _dump_seconds(rebuild: Rebuild) -> list[float]:
    rows = BackupRun.objects.filter(
        instance__cluster=rebuild.target.cluster_id,
        method=BackupMethod.DUMP,
        status=RunStatus.SUCCEEDED,
        started_at__isnull=False,
        finished_at__isnull=False,
    )
    times = rows.order_by("-finished_at").values_list("started_at", "finished_at")[:DUMPS_COUNTED]
    return [(finished - started).total_seconds() for started, finished in times if started and finished]
