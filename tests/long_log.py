"""A dashboard without a lab whose one rebuild has a long log: nothing drives it, so the log grows by what a test writes."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tests import run_folder
from tests.networks import answers
from tests.stack import OPERATOR, OPERATOR_PASSWORD, Stack, wait_for

LINES = 100_000
#: every thousandth line is of the target, each ten-thousandth is a warning, and one is hostile
MAKE = """
from datetime import timedelta
from django.utils import timezone
from dbops.models import RebuildEvent
from tests.app.factories import make_operator, make_rebuild, make_trio
_, backup, replica = make_trio()
rebuild = make_rebuild(target=replica, source=backup, requested_by=make_operator("rosa"))
began = timezone.now() - timedelta(seconds=COUNT)
def line(number):
    host = replica.host.name if number % 1000 == 0 else backup.host.name
    level = "warning" if number % 10000 == 0 else "info"
    text = f"[{number:06}] Streaming ./shop/orders#p#p{number % 97}.ibd to <STDOUT>"
    if number % 50 == 0:
        text += "\\n        with a second line that is rather long, " + "so that it takes more room than the others; " * 3
    if number == 77777:
        text = "\\x1b[31m<img src=x onerror=alert(1)>\\x1b[0m needle \\u202e&amp;"
    return RebuildEvent(rebuild=rebuild, at=began + timedelta(seconds=number), step="stream", host=host, level=level, text=text)
for start in range(1, COUNT + 1, 5000):
    RebuildEvent.objects.bulk_create(line(number) for number in range(start, min(start + 5000, COUNT + 1)))
print(rebuild.pk)
"""


@contextmanager
def dashboard_with_log(count: int = LINES) -> Iterator[tuple[Stack, str]]:
    """Give a dashboard that runs and the path of its rebuild's page. Line N of the log has the key N."""
    with tempfile.TemporaryDirectory(prefix="dbops-test-", dir=run_folder.parent()) as folder:
        stack = Stack(Path(folder), cast(Any, None))
        # No Redis runs there: the web process asks the table every three seconds.
        stack.environment["DBOPS_REDIS_URL"] = "redis://127.0.0.1:1/0"
        try:
            stack.migrate()
            stack.manage(
                "account", "create", OPERATOR, "--group", "operator", "--password-stdin", stdin=OPERATOR_PASSWORD
            )
            made = stack.manage("shell", "--no-imports", "-c", MAKE.replace("COUNT", str(count)))
            stack.start("web")
            wait_for("the web process", lambda: answers(f"{stack.url}/healthz/"))
            yield stack, f"/rebuilds/{made.stdout.split()[-1]}/"
        finally:
            stack.stop_all()


def write_lines(stack: Stack, *texts: str, level: str = "info") -> None:
    """Add lines to the rebuild's log, as a runner would."""
    for text in texts:
        stack.write(
            "INSERT INTO dbops_rebuildevent (rebuild_id, at, step, host, level, text) "
            "SELECT rebuild_id, at, step, host, ?, ? FROM dbops_rebuildevent ORDER BY id DESC LIMIT 1",
            level,
            text,
        )
    stack.write("UPDATE dbops_rebuild SET revision = revision + 1")
