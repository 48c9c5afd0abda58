"""Which due time of a schedule a run belongs to."""

from datetime import datetime, timedelta

#: Clocks differ, and some cron daemons start a little early.
EARLY = timedelta(minutes=5)
#: A run that begins later than this after it was due is another one, made by hand.
REACH = timedelta(hours=6)


def fits(started_at: datetime, due: datetime, following: datetime | None, late_after_seconds: int) -> bool:
    """Tell whether a run that began at ``started_at`` is the one that was due at ``due``.

    Args:
        following: the next due time: a run belongs to the due time before it for half of the way there, for ``REACH`` at
            most, and as long as it counts as on time in any case.
    """
    reach = min(REACH, (following - due) / 2) if following else REACH
    return due - EARLY <= started_at <= due + max(reach, timedelta(seconds=late_after_seconds))
