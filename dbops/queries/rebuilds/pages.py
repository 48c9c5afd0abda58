"""Read the pages of rebuilds."""

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Exists, OuterRef, Q, QuerySet

from dbops.engine.facts.instance import from_record
from dbops.engine.phrases import Phrase, phrase
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.finish.sweep import CleanUpPlace, left_over
from dbops.engine.schedule import backup_windows
from dbops.engine.schedule.eligibility import expected_start
from dbops.engine.states import Status, StepState
from dbops.loaders.cluster_snapshots import snapshot_of
from dbops.models import ExecutedCommand, Hold, Rebuild, RebuildStep
from dbops.models.rebuilds import WANTS_TO_START
from dbops.queries.rebuilds.overlaps import Overlap, overlapping_backups
from dbops.queries.rebuilds.step_titles import STEP_TITLE
from dbops.queries.rebuilds.stream_ends import StreamEnd, ends_of

REBUILDS_ON_A_PAGE = 30
COMMANDS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step with its known progress. Unknown numbers are ``None``."""

    step: RebuildStep
    bytes: int | None
    total_bytes: int | None
    rate: float | None
    average: float | None
    percent: float | None
    eta_seconds: float | None
    note: str
    exit_statuses: dict[str, int]
    tails: dict[str, str]

    @property
    def is_running(self) -> bool:
        return self.step.state == StepState.RUNNING

    @property
    def number(self) -> int:
        """Return the step's number, counted from one."""
        return self.step.position + 1

    @property
    def percent_text(self) -> str:
        return "" if self.percent is None else f"{self.percent:.1f} %"


@dataclass(frozen=True, slots=True)
class RebuildPage:
    """Everything on a rebuild's page except its log. ``revision`` and ``last_event`` identify this moment.

    ``stream_ends`` are the two sides of a failed stream; ``followers`` are rebuilds that resumed or rolled back from this one.
    ``shared`` are all rebuilds of a shared read, the leader first. ``expected_start`` is set while queued; ``overlaps`` are
    external backups on the held instances.
    """

    rebuild: Rebuild
    revision: int
    last_event: int
    plan: Plan | None
    steps: tuple[StepRow, ...]
    holds: tuple[Hold, ...]
    stream_ends: tuple[StreamEnd, ...] = ()
    followers: tuple[Rebuild, ...] = ()
    expected_start: backup_windows.TimeEstimate | None = None
    overlaps: tuple[Overlap, ...] = ()
    shared: tuple[Rebuild, ...] = ()

    @property
    def current(self) -> StepRow | None:
        return next((row for row in self.steps if row.is_running), None)

    @property
    def left_over(self) -> list[tuple[CleanUpPlace, str]]:
        """What the clean-up of an ended rebuild has not reached yet, each with its name."""
        names = {
            CleanUpPlace.SOURCE_HOST: phrase("host of {instance}", instance=self.rebuild.source.name),
            CleanUpPlace.SOURCE_SERVER: phrase("database server {instance}", instance=self.rebuild.source.name),
            CleanUpPlace.TARGET_HOST: phrase("host of {instance}", instance=self.rebuild.target.name),
            CleanUpPlace.TARGET_SERVER: phrase("database server {instance}", instance=self.rebuild.target.name),
        }
        return [(place, names[place]) for place in left_over(self.rebuild.checkpoint)]

    @property
    def has_predictions(self) -> bool:
        return any(row.step.predicted_seconds is not None for row in self.steps)

    @property
    def done_count(self) -> int:
        return sum(1 for row in self.steps if row.step.state == StepState.DONE)

    @property
    def title(self) -> str:
        """Return the document's title, with percent or result first so that it is visible in a narrow tab."""
        rebuild = self.rebuild
        if rebuild.status == Status.RUNNING:
            current = self.current
            sign = f"{current.percent:.0f} %" if current and current.percent is not None else Phrase("running", {})
        else:
            sign = Phrase(rebuild.status, {})
        return phrase(
            "{sign} – {target} – rebuild {rebuild}", sign=sign, target=rebuild.target.name, rebuild=rebuild.pk
        )


def find(rebuild_id: int) -> Rebuild | None:
    """Return one rebuild with its people and machines, or ``None``. One query."""
    return (
        Rebuild.objects.select_related("target__cluster", "target__host", "source__host", "requested_by")
        .annotate(has_branches=Exists(Rebuild.objects.filter(leader=OuterRef("pk"))))
        .filter(pk=rebuild_id)
        .first()
    )


def shared_read(rebuild: Rebuild) -> tuple[Rebuild, ...]:
    """Return the rebuilds of one shared read, the leader first; empty without a shared read. One query."""
    first = rebuild.leader_id or rebuild.pk
    rows = Rebuild.objects.filter(Q(pk=first) | Q(leader=first)).select_related("target").defer("plan", "checkpoint")
    found = tuple(sorted(rows, key=lambda row: (row.pk != first, row.pk)))
    return found if len(found) > 1 else ()


def revision(rebuild_id: int) -> int | None:
    """Return the revision alone, for polls. One query."""
    return Rebuild.objects.filter(pk=rebuild_id).values_list("revision", flat=True).first()


def page(rebuild: Rebuild) -> RebuildPage:
    """Return the state of a rebuild read with ``find``.

    Three queries, one more with a shared read; at most two more after an unsuccessful end, and those of a cluster snapshot while
    queued.
    """
    plan = from_record(Plan, rebuild.plan) if rebuild.plan else None
    steps, holds = tuple(rebuild.steps.all()), tuple(rebuild.holds.select_related("instance"))
    ended_badly = rebuild.status in (Status.FAILED, Status.CANCELLED)
    return RebuildPage(
        rebuild=rebuild,
        revision=rebuild.revision,
        last_event=0,
        plan=plan,
        steps=tuple(_step_row(step) for step in steps),
        holds=holds,
        overlaps=overlapping_backups(rebuild, holds),
        stream_ends=ends_of(plan, steps),
        expected_start=expected_start_of(rebuild),
        shared=shared_read(rebuild) if rebuild.leader_id or getattr(rebuild, "has_branches", False) else (),
        followers=tuple(rebuild.followed_by.only("method", "status").order_by("pk")) if ended_badly else (),
    )


def expected_start_of(rebuild: Rebuild) -> backup_windows.TimeEstimate | None:
    """Return the expected start of a queued rebuild, else ``None``. While queued it takes the queries of a cluster snapshot."""
    if rebuild.status != Status.QUEUED:
        return None
    snapshot = snapshot_of(rebuild.target.cluster)
    job = snapshot.queued(rebuild.pk)
    return expected_start(snapshot, job).at if job else None


def _step_row(step: RebuildStep) -> StepRow:
    known: dict[str, Any] = step.progress or {}
    result: dict[str, Any] = step.result or {}
    return StepRow(
        step=step,
        bytes=known.get("bytes"),
        total_bytes=known.get("total_bytes"),
        rate=known.get("rate_bytes_per_second"),
        average=known.get("average_bytes_per_second"),
        percent=known.get("percent"),
        eta_seconds=known.get("eta_seconds"),
        note=known.get("note") or "",
        exit_statuses=result.get("exit_statuses") or {},
        tails={name: text for name, text in (result.get("tails") or {}).items() if text},
    )


def commands(rebuild_id: int, shown: int | None = COMMANDS_SHOWN) -> tuple[list[ExecutedCommand], int]:
    """Return the newest commands, newest last (all if ``shown`` is ``None``), and their number. Two queries."""
    rows = ExecutedCommand.objects.filter(rebuild=rebuild_id).annotate(step_title=STEP_TITLE)
    newest = rows.order_by("-pk") if shown is None else rows.order_by("-pk")[:shown]
    return list(reversed(newest)), rows.count()


def queue_of(rebuild: Rebuild) -> list[Rebuild]:
    """Return the queued jobs of the same source or target, in starting order. One query."""
    instances = (rebuild.source_id, rebuild.target_id)
    rows = Rebuild.objects.filter(status=Status.QUEUED).filter(Q(source__in=instances) | Q(target__in=instances))
    in_order = rows.order_by("-priority", WANTS_TO_START, "pk")
    return list(in_order.select_related("target", "source").defer("plan", "checkpoint"))


def listed(*, status: str, number: str | int, cluster: str = "") -> Page[Rebuild]:
    """Return one page of the list, newest first, optionally of one status or cluster. Two queries."""
    return Paginator(rows(status=status, cluster=cluster), REBUILDS_ON_A_PAGE).get_page(number)


def rows(*, status: str = "", cluster: str = "", target: str = "") -> QuerySet[Rebuild]:
    """Return rebuilds, newest first, optionally of one status, cluster or target. One query."""
    found = Rebuild.objects.select_related("target__cluster", "source", "requested_by").defer("plan", "checkpoint")
    wanted = {"status": status, "target__cluster__name": cluster, "target__name": target}
    return found.filter(**{name: value for name, value in wanted.items() if value})
