"""Render HTML documents outside the dashboard's frame: printable reports and self-contained files."""

from typing import Any

from django.conf import settings
from django.template.loader import render_to_string


def render_document(template: str, *, is_file: bool, **context: Any) -> str:
    """Return a document as HTML. A file embeds its style and has no links; a page loads its style."""
    return render_to_string(template, {**context, "css": _css() if is_file else ""})


def _css() -> str:
    return (settings.BASE_DIR / "static" / "dbops" / "report.css").read_text(encoding="utf-8")
