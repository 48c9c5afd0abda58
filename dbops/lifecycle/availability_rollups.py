"""Mark counted days for recounting after a correction of the past."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Case, F, Value, When

from dbops.engine.availability.days import day_of
from dbops.models import CountedDays, GapDay


def recount(clusters: Iterable[int], since: datetime | None, now: datetime) -> None:
    """Request a recount of the gaps of some clusters. Nothing is written for today, which is counted only when it is over.

    Call it in the transaction that changes the past: a concurrent count sees a new revision and discards its result.

    Args:
        since: the first moment at which something changed; ``None`` for all counted days.
    """
    keys = list(clusters)
    marks, days = CountedDays.objects.filter(cluster__in=keys), GapDay.objects.filter(cluster__in=keys)
    if since is None:
        with transaction.atomic():
            marks.delete()
            days.delete()
        return
    day = day_of(since)
    if day >= day_of(now):
        return
    with transaction.atomic():
        marks.update(
            since=Case(When(since__gt=day, then=Value(day)), default=F("since")),
            until=Case(When(until__gt=day, then=Value(day)), default=F("until")),
            revision=F("revision") + 1,
        )
        days.filter(day__gte=day).delete()
