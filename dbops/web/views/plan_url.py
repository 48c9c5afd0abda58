"""The address of a plan with its choices."""

from urllib.parse import urlencode

from django.urls import reverse

from dbops.engine.methods import DEFAULT_METHOD
from dbops.models import Instance


def plan_url(
    target: Instance, *, source: str, method: str, keep: bool, full: bool, start: str, again: int | None
) -> str:
    named = "" if method == DEFAULT_METHOD else method
    asked = {"source": source, "method": named, "keep_old_data": "1" if keep else "", "start": start, "again": again}
    asked["full_certificate"] = "1" if full else ""
    given = {name: value for name, value in asked.items() if value}
    return reverse("rebuild-plan", args=[target.name]) + (f"?{urlencode(given)}" if given else "")
