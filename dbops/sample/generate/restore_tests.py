"""Write the sample's restore tests: weekly, of each source's newest physical backup."""

import random
import uuid
from datetime import datetime, timedelta
from typing import Any

from dbops.engine.errors import RemoteFailure
from dbops.engine.phrases import phrase
from dbops.engine.restore_tests.result import STEPS
from dbops.engine.states import RunStatus
from dbops.models import BackupEvent, BackupRun, RestoreTest

EVERY_DAYS = 7
#: Seconds of the short steps; the others follow the bytes.
SHORT = {"check": 0.3, "start": 4.2, "stop": 1.8, "remove": 6.5}
#: Bytes per second of steps that read all data.
RATES = {"unpack": 310e6, "prepare": 42e6, "tables": 520e6, "rows": 640e6}
#: The source with a failed last restore test, the step and the error.
FAILED, STEP, FOUND = "search-b1", "tables", "bad lines of CHECK TABLE: 1, the first: search.postings error Corrupt"


def write_restore_tests(runs: list[BackupRun], begin: datetime, now: datetime) -> None:
    """Write the restore tests after the backup runs. They use their own random generator, so other history is unaffected."""
    good = [row for row in runs if row.origin == "managed" and row.method == "physical" and row.status == "succeeded"]
    for source in sorted({row.instance.name for row in good}):
        of_source = [row for row in good if row.instance.name == source and row.finished_at]
        due = now - timedelta(days=1 if source == FAILED else 3)
        chosen = []
        while due > begin:
            before = [row for row in of_source if row.finished_at and row.finished_at < due]
            if before:
                chosen.append((before[-1], due))
            due -= timedelta(days=EVERY_DAYS)
        for number, (row, at) in enumerate(reversed(chosen), 1):
            _run_restore_test(row, at, is_bad=source == FAILED and number == len(chosen))


def _run_restore_test(run: BackupRun, at: datetime, *, is_bad: bool) -> None:
    dice = random.Random(run.uid)  # noqa: S311 - it guards nothing, and is to be the same each time
    steps = _steps(run, dice, is_bad=is_bad)
    end = at + timedelta(seconds=sum(step["seconds"] for step in steps))
    error: dict[str, Any] = {}
    if is_bad:
        operation = phrase("Restore-testing the backup {path} of {instance}", path=run.path, instance=run.instance.name)
        error = RemoteFailure("restore_test.tables", operation, cause=FOUND).as_record()
    status = RunStatus.FAILED if is_bad else RunStatus.SUCCEEDED
    restore_test = RestoreTest.objects.create(
        uid=uuid.UUID(int=dice.getrandbits(128)).hex[:16],
        run=run,
        source=run.instance,
        host=run.instance.host,
        status=status,
        requested_at=at,
        started_at=at,
        finished_at=end,
        steps=steps,
        tables_checked=None if is_bad else 412,
        rows_counted=None if is_bad else dice.randrange(2_000_000_000, 2_100_000_000),
        error=error,
    )
    ended = phrase("failed") if is_bad else phrase("succeeded")
    text = phrase("No files remain on the host.")
    lines = [
        (at, "info", phrase("The restore test is due.")),
        (
            end,
            "error" if is_bad else "info",
            phrase("Restore test {test} {ended}. {text}", test=restore_test.pk, ended=ended, text=text),
        ),
    ]
    BackupEvent.objects.bulk_create(
        BackupEvent(run=run, at=when, level=level, text=text) for when, level, text in lines
    )


def _steps(run: BackupRun, dice: random.Random, *, is_bad: bool) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    size = int((run.bytes_written or 0) * 2.7)
    read = {"unpack": size, "prepare": 3 * 1024**3, "tables": size}
    for name in STEPS:
        if is_bad and name in ("rows", "stop"):
            continue
        seconds = SHORT[name] if name in SHORT else read.get(name, size) / RATES[name]
        state = "failed" if is_bad and name == STEP else "done"
        taken = round(seconds * dice.uniform(0.9, 1.15), 3)
        steps.append(
            {"name": name, "state": state, "seconds": taken, "bytes": None if state == "failed" else read.get(name)}
        )
    return steps
