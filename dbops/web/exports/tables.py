"""Export tables as CSV (RFC 4180, safe from formulas in spreadsheets) and JSON."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.http import HttpResponse, JsonResponse

from dbops.security.redaction import cell


def csv_answer(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> HttpResponse:
    """Return a CSV file with CR LF line ends, in UTF-8 with a byte order mark for spreadsheets."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([cell(value) for value in row] for row in rows)
    answer = HttpResponse("\ufeff" + text.getvalue(), content_type="text/csv; charset=utf-8")
    return _named(answer, f"{name}.csv")


def json_answer(name: str, content: Mapping[str, Any]) -> HttpResponse:
    return _named(JsonResponse(content, json_dumps_params={"indent": 1, "ensure_ascii": False}), f"{name}.json")


def _named(answer: HttpResponse, name: str) -> HttpResponse:
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
