"""Render the weekly availability report for a channel."""

from datetime import datetime
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone

from dbops.lib.documents import render_document
from dbops.queries.availability.report import FleetReport, fleet_report, last_week

#: Number of clusters in the plain text; the HTML has all.
NAMED = 20


def render(opened_at: datetime, now: datetime) -> tuple[str, str]:
    """Return the report of the week before ``opened_at``, as text and as HTML."""
    report = _report(opened_at, now)
    text = render_to_string("availability/weekly.txt", {"report": report, "rows": report.rows[:NAMED]})
    return text, render_document("availability/report_fleet.html", report=report, is_file=True)


def numbers(opened_at: datetime, now: datetime) -> dict[str, Any]:
    """Return the report's numbers for a webhook: seconds of each gap, in total and by cluster."""
    report = _report(opened_at, now)
    return {
        "period": {
            "start": report.span.period.start.isoformat(),
            "end": report.span.period.end.isoformat(),
        },
        "seconds": {one.gap.name.lower(): round(one.seconds) for one in report.whole},
        "clusters": [
            {"name": row.name, "seconds": {one.gap.name.lower(): round(one.seconds) for one in row.sums}}
            for row in report.rows
        ],
    }


def _report(opened_at: datetime, now: datetime) -> FleetReport:
    _, span = last_week(opened_at, timezone.get_current_timezone())
    return fleet_report(span, now)
