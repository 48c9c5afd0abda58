"""Export the availability pages as CSV or JSON, with the same period, filters and numbers."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpResponse

from dbops.engine.availability.forecast import ForecastHour
from dbops.engine.availability.rebuild_times import MethodTimes, Times
from dbops.engine.availability.shortages import Gap, Shortage
from dbops.engine.availability.verified_sources import VerifiedSource
from dbops.engine.availability.what_if import WhatIfChange
from dbops.engine.schedule.calendar import Interval
from dbops.queries.availability.forecast import ClusterForecast
from dbops.queries.availability.overview import MICROSECONDS, ClusterGaps, ClusterSums, Sum
from dbops.queries.availability.what_if import WhatIf, WhatIfRow
from dbops.queries.restore_tests import RestoreStatus
from dbops.web.changes import ChangeSuggestion, describe_change
from dbops.web.charts.heatmap import DAYS
from dbops.web.exports.tables import csv_answer, json_answer

FORMATS = ("csv", "json")


def fleet_file(period: Interval, rows: tuple[ClusterSums, ...], form: str) -> HttpResponse:
    """Return the sums of all clusters; JSON also has them by cause."""
    name = f"availability-{_day(period.end)}"
    if form == "json":
        clusters = [{"cluster": row.name, "gaps": [_gap(one, row) for one in row.sums]} for row in rows]
        return json_answer(name, {**_period(period), "clusters": clusters})
    columns = ("cluster", "from", "to", "gap", "seconds", "percent")
    lines = [
        (row.name, _time(period.start), _time(period.end), str(one.gap), one.seconds, round(one.percent, 4))
        for row in rows
        for one in row.sums
    ]
    return csv_answer(name, columns, lines)


def cluster_file(
    cluster: str,
    found: ClusterGaps,
    gap: Gap,
    form: str,
    *,
    times: Iterable[MethodTimes],
    verified_sources: Iterable[VerifiedSource],
    restores: Iterable[RestoreStatus],
    ahead: ClusterForecast,
) -> HttpResponse:
    """Return one cluster's intervals of the chosen gap, newest first; JSON also has the rest of its page."""
    name = f"availability-{cluster}-{gap.name.lower()}-{_day(found.period.end)}"
    intervals = [_interval(part) for part in found.parts]
    if form == "csv":
        columns = ("from", "to", "seconds", "gap", "cause", "missing", "evidence", "announced")
        return csv_answer(name, columns, [tuple(one.values()) for one in intervals])
    weeks = [
        {
            **_period(week.interval),
            "seconds": week.seconds,
            "causes": {str(cause): value for cause, value in week.causes},
        }
        for week in found.weeks
    ]
    content = {
        "cluster": cluster,
        **_period(found.period),
        "gaps": [_sum(one) for one in found.sums],
        "gap": str(gap),
        "causes": {str(cause): seconds for cause, seconds in found.causes},
        "intervals": intervals,
        "below_target_by_week": weeks,
        "rebuild_times": [_times(one) for one in times],
        "verified_sources": [
            {"source": one.source, "rebuild": one.rebuild, "at": _time(one.at) if one.at else None}
            for one in verified_sources
        ],
        "restores": [
            {
                "source": one.age.source,
                "state": str(one.state),
                "backup_run": one.run,
                "at": _time(one.at) if one.at else None,
            }
            for one in restores
        ],
        "if_it_broke_now": _forecast(ahead),
    }
    return json_answer(name, content)


def forecast_file(cluster: str, ahead: ClusterForecast, now: datetime) -> HttpResponse:
    """Return the recovery forecast as CSV."""
    columns = ("weekday", "hour", "worst at", "wait seconds", "seconds", "over the goal", "why")
    lines = [
        (*list(one.values())[:5], {True: "yes", False: "no", None: "unknown"}[one["breaks_goal"]], one["why"])
        for one in _forecast(ahead)["hours"]
    ]
    return csv_answer(f"forecast-{cluster}-{_day(now)}", columns, lines)


def what_if_file(cluster: str, found: WhatIf, best: Iterable[ChangeSuggestion], form: str) -> HttpResponse:
    """Return the what-if analysis: both periods, the best changes, and the blocked time by method."""
    name, asked = f"what-if-{cluster}-{_day(found.period.end)}", found.asked
    if form == "csv":
        columns = (
            "from",
            "to",
            "part",
            "change",
            "what",
            "seconds",
            "seconds with the change",
            "removed percent",
            "why",
        )
        period = tuple(_period(found.period).values())
        return csv_answer(name, columns, [(*period, *row) for row in _what_if_rows(found, best)])
    content = {
        "cluster": cluster,
        **_period(found.period),
        "change": {
            "schedule": asked.schedule,
            "moved_by_hours": asked.hours,
            "as_physical": asked.as_physical,
            "adds_source": asked.adds_source,
        },
        "removed_percent": round(found.outcome.removed_percent, 4),
        "gaps": [
            {"gap": str(row.before.gap), "seconds": row.before.seconds, "seconds_with_the_change": row.after.seconds}
            for row in found.rows
        ],
        "best": [
            {
                "change": one.text,
                **_fields(one.outcome.change),
                "removed_percent": round(one.outcome.removed_percent, 4),
                "seconds_left": one.left_seconds,
            }
            for one in best
        ],
        "by_method": [
            {
                "method": way.method,
                "way": way.text,
                "seconds": way.seconds,
                "percent": round(way.percent, 4),
                "causes": [{"cause": cause, "seconds": seconds} for cause, seconds in way.causes],
            }
            for way in found.ways
        ],
    }
    return json_answer(name, content)


def _fields(change: WhatIfChange) -> dict[str, Any]:
    """Return a change with the names of its request."""
    return {
        "schedule": change.schedule,
        "moved_by_hours": change.by // timedelta(hours=1),
        "as_physical": change.takes is not None,
        "adds_source": change.adds_source,
    }


def _what_if_rows(found: WhatIf, best: Iterable[ChangeSuggestion]) -> Iterator[tuple[Any, ...]]:
    """Return the page's three tables below each other; ``part`` names the table, and missing columns are empty."""
    asked = describe_change(found.outcome.change, found.schedules)
    for row in found.rows:
        yield "gap", asked, str(row.before.gap), row.before.seconds, row.after.seconds, _removed(row), ""
    gap, before = str(Gap.NOT_REBUILDABLE), found.blocked_seconds
    for one in best:
        yield "proposal", one.text, gap, before, one.left_seconds, round(one.outcome.removed_percent, 4), ""
    for way in found.ways:
        yield "way of rebuilding", "", way.text, way.seconds, "", "", "; ".join(cause for cause, _ in way.causes)


def _removed(row: WhatIfRow) -> float | str:
    before = row.before.seconds
    return round(100 * (1 - row.after.seconds / before), 4) if before else ""


def _forecast(ahead: ClusterForecast) -> dict[str, Any]:
    duration, worst = ahead.rebuild.duration, ahead.forecast.worst
    return {
        "method": ahead.method,
        "goal_seconds": ahead.goal_seconds,
        "goal_is_its_own": ahead.has_own_goal,
        "rebuild_p50_seconds": duration.p50_seconds if duration else None,
        "rests_on": ahead.rebuild.reason,
        "worst_hour": _hour(worst, ahead) if worst else None,
        "breaches": ahead.breaches,
        "not_known": ahead.unknown,
        "hours": [_hour(one, ahead) for one in ahead.forecast.hours],
    }


def _hour(one: ForecastHour, ahead: ClusterForecast) -> dict[str, Any]:
    goal = ahead.goal_seconds
    return {
        "weekday": str(DAYS[one.weekday]),
        "hour": one.hour,
        "worst_at": _time(one.at),
        "wait_seconds": one.wait_seconds,
        "seconds": one.seconds,
        "breaks_goal": True if one.breaks(goal) else False if one.keeps(goal) else None,
        "why": one.why,
    }


def _times(one: MethodTimes) -> dict[str, Any]:
    return {
        "method": one.method,
        **_took(one.whole),
        "steps": [{"step": step.what, **_took(step)} for step in one.steps],
    }


def _took(one: Times) -> dict[str, Any]:
    return {
        "runs": one.runs,
        "p50_seconds": one.p50,
        "p90_seconds": one.p90,
        "worst_seconds": one.worst,
        "p50_seconds_before": one.before_p50,
    }


def _gap(one: Sum, row: ClusterSums) -> dict[str, Any]:
    causes = [
        {"cause": str(kind.cause), "announced": kind.is_planned, "seconds": value / MICROSECONDS}
        for kind, value in sorted(row.amounts.items())
        if kind.gap is one.gap
    ]
    return {**_sum(one), "causes": causes}


def _sum(one: Sum) -> dict[str, Any]:
    return {"gap": str(one.gap), "seconds": one.seconds, "percent": round(one.percent, 4)}


def _interval(part: Shortage) -> dict[str, Any]:
    return {
        "from": _time(part.interval.start),
        "to": _time(part.interval.end),
        "seconds": part.interval.seconds,
        "gap": str(part.gap),
        "cause": str(part.cause),
        "missing": part.missing,
        "rests_on": part.reference,
        "announced": part.planned,
    }


def _period(period: Interval) -> dict[str, str]:
    return {"from": _time(period.start), "to": _time(period.end)}


def _time(moment: datetime) -> str:
    """Return a moment in UTC, with its zone."""
    return moment.isoformat(timespec="seconds")


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"
