"""The newest of many rows for each of their owners."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from django.db.models import F, QuerySet, Window
from django.db.models.functions import RowNumber


class Last(NamedTuple):
    """The newest one that has ended."""

    pk: int
    ended_at: datetime


def newest(rows: QuerySet, owner: str, keys: Collection[int]) -> dict[int, Last]:
    """Return of each owner the row that ended last; ``owner`` is a column or a path to one. One query."""
    place = Window(RowNumber(), partition_by=F(owner), order_by=F("finished_at").desc())
    found = rows.filter(**{f"{owner}__in": keys}, finished_at__isnull=False).annotate(place=place).filter(place=1)
    return {key: Last(pk, ended_at) for key, pk, ended_at in found.order_by().values_list(owner, "pk", "finished_at")}
