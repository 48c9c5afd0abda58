"""The age of what was read. A time in the future has none."""

from datetime import datetime

#: A time that is further ahead than this was written before the clock was set back; less is a difference between machines.
TOLERANCE_SECONDS = 5.0


def age_seconds(moment: datetime, now: datetime) -> float | None:
    """Return how long ago ``moment`` was, in seconds; ``None`` if it is in the future, so that its age is unknown."""
    seconds = (now - moment).total_seconds()
    return None if seconds < -TOLERANCE_SECONDS else max(0.0, seconds)
