"""What all parts of the API share: names, numbers, texts, pages."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from django.db.models import Model, QuerySet
from ninja import Field, Path, Query, Schema
from pydantic import ConfigDict, StringConstraints

from dbops.engine.schedule.backup_windows import TimeEstimate

T = TypeVar("T")
Row = TypeVar("Row", bound=Model)

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
#: A number that every database and every JSON reader takes.
LARGEST = 2**53
MOST = 200

Name = Annotated[str, StringConstraints(pattern=NAME, max_length=63)]
#: PostgreSQL stores no NUL.
Text = Annotated[str, StringConstraints(max_length=2000, pattern=r"^[^\x00]*$")]
Reason = Annotated[
    str,
    StringConstraints(min_length=3, max_length=2000, pattern=r"^[^\x00]*$"),
    Field(description="Why. The audit log records it."),
]
InPath = Annotated[str, Path(pattern=NAME, max_length=63)]
Number = Annotated[int, Path(ge=1, le=LARGEST)]
Limit = Annotated[int, Query(ge=1, le=MOST, description="Objects on a page.")]
NumberCursor = Annotated[int | None, Query(ge=1, le=LARGEST, description="`next` of the page before.")]
NameCursor = Annotated[str | None, Query(pattern=NAME, max_length=63, description="`next` of the page before.")]


class Given(Schema):
    """A request's body: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class Page(Schema, Generic[T]):
    """Some objects, and the cursor of the next page; ``None``: there is none."""

    items: list[T]
    next: str | None


class Estimate(Schema):
    """An expected time: likely, and late. ``None``: unknown, for the reason."""

    p50: datetime | None
    p90: datetime | None
    reason: str


class Problem(Schema):
    """An error (RFC 9457). ``code`` is stable; the other texts are for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    operation: str
    state: str
    next_step: str
    errors: list[dict[str, str]] = []


def estimate(found: TimeEstimate) -> Estimate:
    """Return an estimate for an answer."""
    return Estimate(p50=found.p50, p90=found.p90, reason=found.reason)


def newest_first(
    rows: QuerySet[Row], cursor: int | None, limit: int, show: Callable[[Row], T], key: str = "pk"
) -> dict[str, Any]:
    """Return a page of rows, newest first."""
    rows = rows.order_by(f"-{key}")
    if cursor is not None:
        rows = rows.filter(**{f"{key}__lt": cursor})
    found = list(rows[: limit + 1])
    last = str(getattr(found[limit - 1], key)) if len(found) > limit else None
    return {"items": [show(row) for row in found[:limit]], "next": last}


def by_name(found: Iterable[T], cursor: str | None, limit: int, name: Callable[[T], str]) -> tuple[list[T], str | None]:
    """Return a page of objects by name, and the next cursor."""
    later = sorted((one for one in found if cursor is None or name(one) > cursor), key=name)
    return later[:limit], name(later[limit - 1]) if len(later) > limit else None
