"""Store the limits of a cluster, for pages to read."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from dbops.engine.capacity.limits import CapacityLimit, LimitState, most_urgent
from dbops.engine.facts.instance import to_record
from dbops.models import CapacityForecast
from dbops.security.redaction import without_nul

#: A forecast uses one value a day.
EVERY = timedelta(hours=6)
#: When it is tried again after a fault.
AGAIN = timedelta(hours=1)


def store_limits(row: CapacityForecast, limits: Sequence[CapacityLimit], now: datetime) -> int:
    """Store the ranked limits of a cluster. Return 1, or 0 if a threshold was changed since ``row`` was read: it is due again."""
    flagged = most_urgent(limits, now)
    first_at = now if flagged and flagged.state is LimitState.REACHED else flagged.first if flagged else None
    same = CapacityForecast.objects.filter(pk=row.pk, due_at=row.due_at)
    return same.update(
        computed_at=now,
        due_at=now + EVERY,
        limits=without_nul([to_record(limit) for limit in limits]),
        soonest=without_nul(to_record(flagged)) if flagged else None,
        first_at=first_at,
    )


def put_off(row: CapacityForecast, now: datetime) -> None:
    """Let a cluster whose forecast failed wait, unless a threshold was changed since ``row`` was read."""
    CapacityForecast.objects.filter(pk=row.pk, due_at=row.due_at).update(due_at=now + AGAIN)
