"""What a command reads before it begins: a person waits for it, and a cron job pays for it every minute."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: Of pages, the API, calendars, second factors and metrics; and what only tests have.
OF_PAGES = (
    "dbops.urls",
    "dbops.web",
    "ninja",
    "pydantic",
    "icalendar",
    "fido2",
    "allauth.mfa.base.views",
    "django.test",
)
RUN = """
import json, sys
from django.core.management import execute_from_command_line
try:
    execute_from_command_line(sys.argv)
finally:
    print(json.dumps(list(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words", [("fleet", "export"), ("rebuild", "replica-1", "--plan", "--json"), ("host", "sudoers", "none")]
)
def test_command_reads_no_module_of_a_page(tmp_path: Path, words: tuple[str, ...]) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "dbops.settings",
        "DBOPS_STATE_DIR": str(tmp_path),
        "DBOPS_DATABASE_URL": f"sqlite:///{tmp_path / 'empty.sqlite3'}",
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    read = json.loads(next(line for line in done.stderr.splitlines() if line.startswith("[")))
    assert "dbops.models" in read, done.stderr
    assert [name for name in read if name.startswith(OF_PAGES)] == []
