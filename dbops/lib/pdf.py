"""Reports as documents that stand alone: a page of their own to be printed, a file, a PDF."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PDF_SECONDS = 120


class NoBrowser(RuntimeError):
    """There is no Chromium that could make a PDF, or it did not make one; the text says which."""


def document(template: str, *, stands_alone: bool, **context: Any) -> str:
    """Return a report as HTML. One that stands alone has its style within it and leads nowhere."""
    return render_to_string(template, {**context, "css": _css() if stands_alone else ""})


def _css() -> str:
    return (settings.BASE_DIR / "static" / "dbops" / "report.css").read_text(encoding="utf-8")


def pdf(html: str, to: Path) -> None:
    """Have Chromium print a document into a file.

    Raises:
        NoBrowser: there is none, or it failed.
    """
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise NoBrowser(f"no Chromium was found ({', '.join(BROWSERS)}): print the HTML from a browser instead")
    with tempfile.TemporaryDirectory(prefix="dbops-report-") as folder:
        page, made = Path(folder, "report.html"), Path(folder, "report.pdf")
        page.write_text(html, encoding="utf-8")
        command = [
            *(browser, "--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder}/profile"),
            # Chromium's own sandbox does not start as root; the page is ours and loads nothing.
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            *("--no-pdf-header-footer", f"--print-to-pdf={made}", page.as_uri()),
        ]
        try:
            ended = subprocess.run(command, capture_output=True, timeout=PDF_SECONDS, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoBrowser(f"{browser} made no PDF: {type(error).__name__}") from None
        if ended.returncode or not made.exists():
            raise NoBrowser(f"{browser} made no PDF: status {ended.returncode}")
        shutil.copyfile(made, to)
