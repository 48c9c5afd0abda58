"""When a schedule is due: cron expressions in a time zone, as Debian's cron reads them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError


class BadSchedule(ValueError):
    """The expression or the time zone cannot be read; the text says which and why."""


#: crontab(5) of Debian. ``@reboot`` is no time.
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
#: What the library reads and Debian's cron does not: the last day, and the n-th weekday of a month.
FOREIGN = re.compile(r"#|(?<![a-z])\d*L(?![a-z])", re.IGNORECASE)


def _fields(expression: str) -> str:
    """Return an expression with five fields. Raises ``BadSchedule`` for one that Debian's cron would read otherwise, or not at all."""
    plain = MACROS.get(expression.strip().lower(), expression)
    if len(plain.split()) != 5:
        raise BadSchedule(f"{expression!r} is no cron expression: it needs five fields, or one of {', '.join(MACROS)}")
    if FOREIGN.search(plain):
        raise BadSchedule(f"{expression!r} is no cron expression: Debian's cron knows neither L nor #")
    return plain


def due_times(expression: str, time_zone: str, after: datetime) -> Iterator[datetime]:
    """Yield the due times later than ``after``, in UTC, without end unless the expression is never due again.

    A fixed time in the hour that is skipped in spring is due when that hour would have begun; one in the hour that comes
    twice in autumn is due once. Intervals (``*`` in the minute or hour) follow the clock on the wall (cron(8) of Debian).

    Raises:
        BadSchedule: the expression or the time zone cannot be read.
    """
    plain = _fields(expression)
    try:
        zone = ZoneInfo(time_zone)
        simulator = CronSim(plain, after.astimezone(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadSchedule(f"{time_zone!r} is no time zone that is known here") from error
    except CronSimError as error:
        raise BadSchedule(f"{expression!r} is no cron expression: {error}") from error
    return (moment.astimezone(UTC) for moment in simulator)


def next_due(expression: str, time_zone: str, after: datetime) -> datetime | None:
    """Return the first due time later than ``after``, ``None`` when there is none. Raises ``BadSchedule``."""
    return next(due_times(expression, time_zone, after), None)


#: How far back a last due time is looked for, step by step: a schedule of every minute must not cost a year of minutes.
LOOK_BACK = tuple(timedelta(hours=hours) for hours in (1, 8, 26, 8 * 24, 32 * 24, 367 * 24))


def last_due(expression: str, time_zone: str, until: datetime) -> datetime | None:
    """Return the last due time that is not later than ``until``, ``None`` when there is none in a year. Raises ``BadSchedule``."""
    for step in LOOK_BACK:
        found = None
        for due in due_times(expression, time_zone, until - step):
            if due > until:
                break
            found = due
        if found:
            return found
    return None
