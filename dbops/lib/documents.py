"""HTML documents outside the dashboard's frame: reports that print well, and files that need nothing else."""

from typing import Any

from django.conf import settings
from django.template.loader import render_to_string


def render_document(template: str, *, is_file: bool, **context: Any) -> str:
    """Return a document as HTML. A file contains its style and has no links; a page of the dashboard loads its style."""
    return render_to_string(template, {**context, "css": _css() if is_file else ""})


def _css() -> str:
    return (settings.BASE_DIR / "static" / "dbops" / "report.css").read_text(encoding="utf-8")
