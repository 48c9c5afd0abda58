"""Generated series of daily values whose growth is known."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from dbops.engine.capacity.trend import DailyValue

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def points(values: Sequence[float | None], start: datetime = START) -> list[DailyValue]:
    """Return one point a day; ``None`` is a day without a reading."""
    return [DailyValue(start + timedelta(days=day), value) for day, value in enumerate(values) if value is not None]


def grown(value: Callable[[int], float], days: int = 90, noise: float = 0.1, seed: int = 1) -> list[float]:
    """Return the values of a function of the day, with normal noise."""
    dice = random.Random(seed)
    return [value(day) + dice.gauss(0, noise) for day in range(days)]


def purged(day: int) -> float:
    """Grow by 1 a day, and lose 20 every 30 days: a third of a unit a day remains."""
    return 100.0 + day - 20 * (day // 30)
