"""Days that were counted and do not hold any more, because something of the past became known or was corrected."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Case, F, Value, When

from dbops.engine.availability.days import day_of
from dbops.models import CountedDays, GapDay


def recount(clusters: Iterable[int], since: datetime | None, now: datetime) -> None:
    """Have gaps of some clusters counted anew. Nothing is written for what is of today, which is never counted before it is over.

    Call it in the transaction that changes the past: who counts at the same moment sees a new revision, and keeps nothing.

    Args:
        since: the first moment at which something changed; ``None`` for all that was ever counted.
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
