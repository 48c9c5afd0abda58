"""Compute the backup windows of schedules in an interval."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import takewhile

from dbops.engine.schedule.backup_windows import BackupWindow, Duration, window_at
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import BackupMethod, RunBy
from dbops.lib.cron import BadSchedule, due_times
from dbops.models import BackupSchedule

#: Maximum number of drawn windows of one schedule.
WINDOWS_OF_A_SCHEDULE = 500


def planned(
    schedules: Iterable[BackupSchedule],
    durations: Mapping[int, Duration | None],
    within: Interval,
    *,
    most: int = WINDOWS_OF_A_SCHEDULE,
) -> list[BackupWindow]:
    """Return the windows that start in an interval, of the enabled schedules.

    Args:
        durations: by primary key of the schedule. The schedules' instances are loaded (``select_related``).
        most: maximum number of windows of one schedule.
    """
    found = []
    for schedule in schedules:
        if not schedule.is_enabled:
            continue
        try:
            times = due_times(schedule.cron, schedule.time_zone, within.start - timedelta(seconds=1))
        except BadSchedule:
            continue  # The schedule's own page shows the problem; one bad row must not break the fleet's pages.
        for number, moment in enumerate(takewhile(lambda at: at < within.end, times)):
            if number >= most:
                break
            found.append(
                window_at(
                    moment,
                    instance=schedule.instance.name,
                    schedule=schedule.name,
                    method=BackupMethod(schedule.method),
                    run_by=RunBy(schedule.run_by),
                    duration=durations.get(schedule.pk),
                )
            )
    return found
