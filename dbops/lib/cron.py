"""Calculate due times of cron expressions in a time zone, with the rules of Debian's cron."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from dbops.engine.phrases import Phrase, phrase


class BadSchedule(ValueError):
    """The expression or time zone is invalid; ``problem`` names it and the reason."""

    def __init__(self, problem: Phrase) -> None:
        super().__init__(problem)
        self.problem = problem


#: crontab(5) of Debian. ``@reboot`` is not a time.
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
#: Syntax of the library that Debian's cron lacks: last day, and n-th weekday of a month.
FOREIGN = re.compile(r"#|(?<![a-z0-9])\d*L(?![a-z])", re.IGNORECASE)


def _fields(expression: str) -> str:
    """Return an expression with five fields. Raises ``BadSchedule`` if Debian's cron would read it differently or not at all."""
    plain = MACROS.get(expression.strip().lower(), expression)
    if len(plain.split()) != 5:
        raise BadSchedule(
            phrase(
                "{expression} is not a cron expression: use five fields, or one of {macros}",
                expression=repr(expression),
                macros=", ".join(MACROS),
            )
        )
    if FOREIGN.search(plain):
        raise BadSchedule(
            phrase(
                "{expression} is not a cron expression: Debian's cron supports neither L nor #",
                expression=repr(expression),
            )
        )
    return plain


def due_times(expression: str, time_zone: str, after: datetime) -> Iterator[datetime]:
    """Yield the due times after ``after``, in UTC; endless unless the expression is never due again.

    A fixed time in the hour skipped in spring is due at the start of that hour; one in the repeated hour in autumn is
    due once. Intervals (``*`` in minute or hour) follow the local clock (cron(8) of Debian).

    Raises:
        BadSchedule: The expression or the time zone is invalid.
    """
    plain = _fields(expression)
    try:
        zone = ZoneInfo(time_zone)
        simulator = CronSim(plain, after.astimezone(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadSchedule(phrase("{zone} is not a known time zone", zone=repr(time_zone))) from error
    except CronSimError as error:
        raise BadSchedule(
            phrase("{expression} is not a cron expression: {problem}", expression=repr(expression), problem=error)
        ) from error
    return (moment.astimezone(UTC) for moment in simulator)


def next_due(expression: str, time_zone: str, after: datetime) -> datetime | None:
    """Return the first due time after ``after``, ``None`` if there is none. Raises ``BadSchedule``."""
    return next(due_times(expression, time_zone, after), None)


#: How far back to search for the last due time, step by step: avoids a year of minutes for frequent schedules.
LOOK_BACK = tuple(timedelta(hours=hours) for hours in (1, 8, 26, 8 * 24, 32 * 24, 367 * 24))


def last_due(expression: str, time_zone: str, until: datetime) -> datetime | None:
    """Return the last due time not after ``until``, ``None`` if there is none within a year. Raises ``BadSchedule``."""
    for step in LOOK_BACK:
        found = None
        for due in due_times(expression, time_zone, until - step):
            if due > until:
                break
            found = due
        if found:
            return found
    return None
