"""Plans and rebuilds in requests and answers."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from ninja import Field, Schema

from dbops.engine.access.tickets import MOST_TICKET
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.schedule.start_option_keys import StartMode
from dbops.models import Rebuild, RebuildEvent
from dbops.operations.start_options import StartOptions
from dbops.queries.rebuilds.pages import RebuildPage, StepRow
from dbops.web.api.schemas.base import LARGEST, Estimate, Given, Name, Reason, Text, estimate
from dbops.web.api.schemas.clusters import Blockers, blockers

Method = StrEnum("Method", {name: name for name in METHODS})  # type: ignore[misc]
Start = Annotated[
    str,
    Field(
        max_length=120,
        pattern=r"^[ -~]*$",
        description="Key of a start option of the plan, or `at:20261231T220000Z`.",
    ),
]


class PlanRequest(Given):
    """Which plan to make. ``source`` empty: the best one."""

    source: Name | None = None
    method: Method = Method(DEFAULT_METHOD)
    keep_old_data: bool = False
    full_certificate: bool = False
    start: Start = StartMode.SOON.value


class RebuildRequest(PlanRequest):
    """A plan to carry out. ``fingerprint`` is that of the plan: a plan that has changed since is refused.

    ``confirm`` is the target's name once more: it is what a person types, and keeps a wrong variable from destroying the wrong data.
    """

    target: Name
    confirm: Text
    reason: Reason
    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    ticket: Annotated[
        Text, Field(max_length=MOST_TICKET, description="Change ticket, where the cluster requires one.")
    ] = ""
    expires_hours: Annotated[int | None, Field(ge=1, le=168)] = None
    rate: Annotated[int | None, Field(ge=1, le=LARGEST, description="Rate limit in bytes a second.")] = None


class Decision(Given):
    """A decision about a rebuild."""

    reason: Text = ""


class CommandOut(Schema):
    """One command of a plan, with secrets masked."""

    place: str
    text: str


class PlannedStep(Schema):
    """One step of a plan, with its expected duration."""

    name: str
    title: str
    commands: list[CommandOut]
    predicted_seconds: float | None
    predicted_p90_seconds: float | None


class Finding(Schema):
    """The result of one check. ``severity``: ``ok``, ``warning`` or ``refusal``."""

    code: str
    severity: str
    title: str
    seen: str
    advice: str


class StartOption(Schema):
    """When and how the rebuild could start."""

    key: str
    title: str
    is_possible: bool
    reason: str
    starts: Estimate
    finishes: Estimate


class PlanOut(Schema):
    """What a rebuild would do, exactly. Nothing was written."""

    target: str
    source: str
    primary: str
    method: str
    is_possible: bool
    fingerprint: str
    destroys: list[str]
    findings: list[Finding]
    steps: list[PlannedStep]
    bytes_to_copy: int | None
    predicted_seconds: float | None
    pauses_source: bool
    pause_reason: str
    start: Blockers
    start_options: list[StartOption]


class Step(Schema):
    """One step of a rebuild, with its progress."""

    name: str
    title: str
    state: str
    started_at: datetime | None
    finished_at: datetime | None
    bytes: int | None
    total_bytes: int | None
    bytes_per_second: float | None
    percent: float | None
    eta_seconds: float | None


class ApprovalOut(Schema):
    """The decision of other people: ``waiting``, ``approved``, ``declined``, ``overridden``; empty: none is needed.

    ``wanted``: how many people must approve.
    """

    state: str
    wanted: int
    by: str
    at: datetime | None
    reason: str


class RebuildShort(Schema):
    """A rebuild."""

    id: int
    status: str
    target: str
    source: str
    cluster: str
    method: str
    reason: str
    ticket: str
    requested_by: str
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    not_before: datetime | None
    expires_at: datetime | None
    priority: int
    waiting_for: str
    cancel_requested_at: datetime | None
    approval: ApprovalOut
    outcome: str


class ErrorRecord(Schema):
    """Why a rebuild failed."""

    code: str
    who: str
    operation: str
    cause: str
    state: str
    next_step: str


class RebuildOut(RebuildShort):
    """A rebuild with its steps. ``expected_start`` is set while it is queued, ``error`` when it failed."""

    is_final: bool
    stream_rate: int | None
    expected_start: Estimate | None
    error: ErrorRecord | None
    steps: list[Step]


class Line(Schema):
    """One line of a rebuild's log."""

    id: int
    at: datetime
    step: str
    host: str
    level: str
    text: str


def plan(found: Plan, options: StartOptions) -> PlanOut:
    """Return a plan for an answer."""
    return PlanOut(
        target=found.target.name,
        source=found.source.name,
        primary=found.primary.name,
        method=found.method,
        is_possible=found.is_possible,
        fingerprint=found.fingerprint,
        destroys=list(found.destroys),
        findings=[
            Finding(code=one.code, severity=one.severity, title=one.title, seen=one.seen, advice=one.advice)
            for one in found.findings
        ],
        steps=[
            PlannedStep(
                name=step.name,
                title=step.title,
                commands=[CommandOut(place=one.place, text=one.text) for one in step.commands],
                predicted_seconds=step.predicted_seconds,
                predicted_p90_seconds=step.predicted_p90_seconds,
            )
            for step in found.steps
        ],
        bytes_to_copy=found.bytes_to_copy,
        predicted_seconds=found.predicted_seconds,
        pauses_source=found.pause_source,
        pause_reason=found.pause_reason,
        start=blockers(options.eligibility),
        start_options=[
            StartOption(
                key=one.key,
                title=one.title,
                is_possible=one.is_possible,
                reason=one.reason,
                starts=estimate(one.starts),
                finishes=estimate(one.finishes),
            )
            for one in options.options
        ],
    )


def rebuild_short(row: Rebuild) -> RebuildShort:
    """Return a row of the list for an answer."""
    return RebuildShort(
        id=row.pk,
        status=row.status,
        target=row.target.name,
        source=row.source.name,
        cluster=row.target.cluster.name,
        method=row.method,
        reason=row.reason,
        ticket=row.ticket,
        requested_by=row.requested_by.get_username(),
        requested_at=row.requested_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        not_before=row.not_before,
        expires_at=row.expires_at,
        priority=row.priority,
        waiting_for=row.waiting_for,
        cancel_requested_at=row.cancel_requested_at,
        approval=ApprovalOut(
            state=row.approval,
            wanted=row.approval_count if row.approval else 0,
            by=row.approval_by,
            at=row.approval_at,
            reason=row.approval_reason,
        ),
        outcome=row.outcome,
    )


def rebuild_full(page: RebuildPage) -> RebuildOut:
    """Return a rebuild's page for an answer."""
    row = page.rebuild
    return RebuildOut(
        **rebuild_short(row).model_dump(),
        is_final=row.is_final,
        stream_rate=row.stream_rate,
        expected_start=estimate(page.expected_start) if page.expected_start else None,
        error=ErrorRecord(**{name: str(row.error.get(name, "")) for name in ErrorRecord.model_fields})
        if row.error
        else None,
        steps=[_step(one) for one in page.steps],
    )


def _step(row: StepRow) -> Step:
    return Step(
        name=row.step.name,
        title=row.step.title,
        state=row.step.state,
        started_at=row.step.started_at,
        finished_at=row.step.finished_at,
        bytes=row.bytes,
        total_bytes=row.total_bytes,
        bytes_per_second=row.rate,
        percent=row.percent,
        eta_seconds=row.eta_seconds,
    )


def line(event: RebuildEvent) -> Line:
    """Return a line of the log for an answer."""
    return Line(id=event.pk, at=event.at, step=event.step, host=event.host, level=event.level, text=event.text)
