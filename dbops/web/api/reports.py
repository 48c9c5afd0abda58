"""Availability and the audit log."""

from datetime import UTC, datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import AwareDatetime, JsonValue

from dbops.database import clock
from dbops.models import AuditEntry
from dbops.queries.audit.log import AuditFilter, entries
from dbops.queries.audit.log import entry as find_entry
from dbops.queries.availability.overview import ClusterSums, cluster_sums
from dbops.web.api.access import called_by
from dbops.web.api.problems import not_found
from dbops.web.api.schemas.base import NameCursor, Number, NumberCursor, Page, by_name

router = Router()
FIRST, LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
Part = Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")]


class GapSum(Schema):
    """How long a cluster lacked something in a period."""

    gap: str
    seconds: float
    percent: float


class Availability(Schema):
    """The gaps of one cluster in the last days."""

    cluster: str
    days: int
    gaps: list[GapSum]


class AuditEntryOut(Schema):
    """One entry of the audit log. ``hash`` covers it and, by ``previous``, all entries before it."""

    sequence: int
    at: datetime
    actor: str
    action: str
    subject: str
    instance: str
    cluster: str
    outcome: str
    reason: str
    address: str
    request: str
    detail: dict[str, JsonValue]
    previous: str
    hash: str


@router.get(
    "/availability",
    response=Page[Availability],
    tags=["availability"],
    summary="Read availability",
    operation_id="read_availability",
)
def availability(
    request: HttpRequest,
    days: Annotated[int, Query(ge=1, le=366)] = 30,
    cursor: NameCursor = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Any:
    """Gaps of the last days by cluster: when it could not be rebuilt, was short of replicas, or was not observed."""
    found = cluster_sums(clock.now(), days=days, only=called_by(request).clusters)
    shown, following = by_name(found, cursor, limit, lambda one: one.name)
    return {"items": [_availability(one, days) for one in shown], "next": following}


@router.get(
    "/audit", response=Page[AuditEntryOut], tags=["audit"], summary="Read the audit log", operation_id="read_audit_log"
)
def audit(
    request: HttpRequest,
    actor: Part = "",
    action: Part = "",
    subject: Part = "",
    instance: Part = "",
    cluster: Part = "",
    outcome: Part = "",
    text: Part = "",
    since: Annotated[AwareDatetime | None, Query()] = None,
    until: Annotated[AwareDatetime | None, Query()] = None,
    cursor: NumberCursor = None,
) -> Any:
    """Fifty entries, newest first. Names match by a part, actions by their beginning. A token of clusters reads their entries alone."""
    wanted = AuditFilter(
        actor=actor,
        action=action,
        subject=subject,
        instance=instance,
        cluster=cluster,
        outcome=outcome,
        text=text,
        since=min(max(since, FIRST), LAST) if since else None,
        until=min(max(until, FIRST), LAST) if until else None,
    )
    page = entries(wanted, before=cursor, only=called_by(request).cluster_names())
    following = str(page.older_before) if page.older_before is not None else None
    return {"items": [_entry(one) for one in page.entries], "next": following}


@router.get(
    "/audit/{sequence}",
    response=AuditEntryOut,
    tags=["audit"],
    summary="Read an audit entry",
    operation_id="read_audit_entry",
)
def audit_entry(request: HttpRequest, sequence: Number) -> Any:
    """One entry by its number, if the token opens its cluster."""
    found, names = find_entry(sequence), called_by(request).cluster_names()
    if found is None or (names is not None and found.cluster not in names):
        raise not_found()
    return _entry(found)


def _availability(found: ClusterSums, days: int) -> Availability:
    gaps = [GapSum(gap=one.gap, seconds=one.seconds, percent=one.percent) for one in found.sums]
    return Availability(cluster=found.name, days=days, gaps=gaps)


def _entry(row: AuditEntry) -> AuditEntryOut:
    return AuditEntryOut(**{name: getattr(row, name) for name in AuditEntryOut.model_fields})
