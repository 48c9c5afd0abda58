"""Export the report of a load test as JSON and CSV."""

from typing import Any

from django.http import HttpResponse

from dbops.engine.load_tests.report import COLUMNS, report_rows
from dbops.queries.load_test_pages import LoadTestPage
from dbops.web.exports.tables import csv_answer, json_answer


def report_file(page: LoadTestPage) -> HttpResponse:
    """Return the whole report with its conditions, as far as the test has come."""
    row, found = page.row, page.conclusion
    content: dict[str, Any] = {
        "LoadTest": row.pk,
        "Status": row.status,
        "Source": row.source.name,
        "Host": row.host.name,
        "GeneratorHost": page.plan.generator_host,
        "BackupRun": row.run_id,
        "Profile": row.profile,  # type: ignore[attr-defined]
        "Plan": row.plan,
        "Fingerprint": row.fingerprint,
        **found.report,
    }
    return json_answer(_name(page), content)


def table_file(page: LoadTestPage) -> HttpResponse:
    """Return a line for each step, each round and the total."""
    rows = report_rows(page.conclusion.report)[1:] if page.conclusion.report else []
    return csv_answer(_name(page), COLUMNS, rows)


def _name(page: LoadTestPage) -> str:
    return f"load-test-{page.row.pk}"
