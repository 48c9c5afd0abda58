"""Backup schedules of the tests' fleet, and a backup that lasts as long as a test wants."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import yaml

from tests.slow_process import Brake, braked
from tests.stack import Stack, wait_for

SOURCE = "backup-1"
#: Has run once; it is not due while the tests run.
COPIES = "copies"
#: Is held when it runs, and expected to take an hour: a run past its expected end has none that is known.
HELD = "held"
HELD_SECONDS = 3600
#: Is due in some hours, and no run of it says yet that it takes no two hours.
NIGHTLY = "nightly"
DUE_IN = timedelta(hours=3)
NIGHTLY_SECONDS = 7200


@dataclass(frozen=True)
class Windows:
    """``past_run`` is a run of ``COPIES`` that has succeeded; ``due`` is when ``NIGHTLY`` is due, every day."""

    past_run: int
    due: datetime


def make_windows(stack: Stack) -> Windows:
    due = (datetime.now(UTC) + DUE_IN).replace(second=0, microsecond=0)
    common = {"method": "physical", "run_by": "dbops", "directory": str(stack.lab.host(SOURCE).folder / "backups")}
    fleet = yaml.safe_load(stack.lab.fleet_yaml.read_text())
    [source] = [
        instance for cluster in fleet["clusters"] for instance in cluster["instances"] if instance["name"] == SOURCE
    ]
    source["backups"] = [
        {**common, "name": COPIES, "cron": "0 0 1 1 *", "enabled": False},
        {**common, "name": HELD, "cron": "0 0 1 1 *", "enabled": False, "expected_seconds": HELD_SECONDS},
        {**common, "name": NIGHTLY, "cron": f"{due.minute} {due.hour} * * *", "expected_seconds": NIGHTLY_SECONDS},
    ]
    file = stack.lab.fleet_yaml.with_name("fleet-with-backups.yaml")
    file.write_text(yaml.safe_dump(fleet))
    stack.manage("fleet", "import", str(file))
    stack.wait_for_facts(SOURCE)
    done = stack.manage("backup", COPIES, "--watch", "--json")
    return Windows(int(json.loads(done.stdout.splitlines()[-1])["backup_run"]), due)


@contextmanager
def held_backup(stack: Stack) -> Iterator[tuple[int, Brake]]:
    """Begin a backup of the source that does not end before its brake is released. Give its number and the brake."""
    with braked(stack.lab.host(SOURCE), 0, "backup/tool") as brake:
        done = stack.manage("backup", HELD, "--json")
        run = int(json.loads(done.stdout.splitlines()[-1])["backup_run"])
        wait_for("the backup to run", lambda: run_status(stack, run) == "running", 60)
        yield run, brake
    wait_for("the end of the backup", lambda: run_status(stack, run) not in ("queued", "running"), 60)


def run_status(stack: Stack, run: int) -> str:
    return str(stack.rows("SELECT status FROM dbops_backuprun WHERE id = ?", run)[0]["status"])
