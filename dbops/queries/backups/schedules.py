"""Read backup schedules for their pages."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from django.core.paginator import Page, Paginator
from django.db.models import F, Q, Window
from django.db.models.functions import Coalesce, Lower, RowNumber
from django.db.models.lookups import Contains

from dbops.engine.backups.plan import dump_refusal
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.engine.schedule.backup_windows import LEARNED_RUNS, Duration, learn
from dbops.engine.states import RUN_FINAL, BackupMethod, RunBy, RunStatus
from dbops.models import BackupRun, BackupSchedule, InstanceState

SCHEDULES_ON_A_PAGE = 50


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule with its learned duration (``None``: unknown) and its last ended run.

    ``refusal``: of its next run, as far as the last probe knows.
    """

    schedule: BackupSchedule
    duration: Duration | None
    last_run: BackupRun | None
    refusal: Refused | None = None


@dataclass(frozen=True, slots=True)
class SchedulePage:
    page: Page[BackupSchedule]
    rows: tuple[ScheduleRow, ...]


def schedules(text: str = "", number: str | int = 1) -> SchedulePage:
    """Return one page of the schedules, by instance. ``text`` filters by name. At most five queries."""
    found = BackupSchedule.objects.select_related("instance__cluster").order_by("instance__name", "name")
    if text:
        # `icontains` would not do: it is case-sensitive with MariaDB's binary collation.
        names = ("name", "instance__name", "instance__cluster__name")
        wanted = Q()
        for name in names:
            wanted |= Q(Contains(Lower(name), text.lower()))
        found = found.filter(wanted)
    page = Paginator(found, SCHEDULES_ON_A_PAGE).get_page(number)
    return SchedulePage(page=page, rows=tuple(_rows(list(page.object_list))))


def of_cluster(cluster_id: int) -> list[ScheduleRow]:
    """Return the schedules of a cluster. At most four queries."""
    found = BackupSchedule.objects.filter(instance__cluster=cluster_id).select_related("instance__cluster")
    return _rows(list(found.order_by("instance__name", "name")))


def learned(schedules: Collection[BackupSchedule]) -> dict[int, Duration | None]:
    """Return the durations of each schedule's runs, by its primary key. One query."""
    seconds: dict[int, list[float]] = defaultdict(list)
    latest = (
        BackupRun.objects.filter(
            schedule__in=[item.pk for item in schedules],
            status=RunStatus.SUCCEEDED,
            started_at__isnull=False,
            finished_at__isnull=False,
        )
        .annotate(place=Window(RowNumber(), partition_by=F("schedule_id"), order_by=F("started_at").desc()))
        .filter(place__lte=LEARNED_RUNS)
        .order_by("-started_at")
        .values_list("schedule_id", "started_at", "finished_at")
    )
    for schedule, start, end in latest:
        if start and end:
            seconds[schedule or 0].append((end - start).total_seconds())
    return {item.pk: learn(seconds[item.pk], item.expected_seconds) for item in schedules}


def _rows(found: list[BackupSchedule]) -> list[ScheduleRow]:
    durations = learned(found)
    last = {
        run.schedule_id: run
        for run in BackupRun.objects.filter(schedule__in=[item.pk for item in found], status__in=RUN_FINAL)
        .annotate(
            place=Window(
                RowNumber(),
                partition_by=F("schedule_id"),
                order_by=Coalesce("started_at", "due_at", "queued_at").desc(),
            )
        )
        .filter(place=1)
        .defer("evidence", "progress", "checkpoint")
    }
    refusals = _refusals(found)
    return [ScheduleRow(item, durations[item.pk], last.get(item.pk), refusals.get(item.pk)) for item in found]


def _refusals(found: list[BackupSchedule]) -> dict[int, Refused]:
    """Return why dumps that dbops would make are refused, by schedule. One query if dbops makes dumps."""
    dumps = [item for item in found if (item.method, item.run_by) == (BackupMethod.DUMP, RunBy.DBOPS)]
    if not dumps:
        return {}
    states = InstanceState.objects.filter(instance__in={item.instance_id for item in dumps})
    refusals = {
        state.instance_id: dump_refusal(facts, phrase("Making a dump")) for state in states if (facts := state.facts())
    }
    return {item.pk: refusal for item in dumps if (refusal := refusals.get(item.instance_id))}
