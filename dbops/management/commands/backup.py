"""``manage.py backup``: run, stop or restore-test a backup. Exit status: 0 succeeded, 1 failed, 2 refused, 3 stopped."""

import json
import sys
import time
from typing import Any, NoReturn

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.engine.states import RUN_FINAL, RunBy, RunStatus
from dbops.management.accounts import actor_named
from dbops.management.command import DbopsCommand
from dbops.models import BackupRun, BackupSchedule, Instance
from dbops.operations.backups import force_fail_run, request_restore_test, run_now, stop_run

EXIT_STATUS = {RunStatus.SUCCEEDED: 0, RunStatus.CANCELLED: 3}
REFUSED = 2
WATCH_SECONDS = 0.5


class Command(DbopsCommand):
    help = "Run a backup now, watch or stop a backup run, or run a restore test."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", default="", help="schedule, or instance with exactly one schedule")
        parser.add_argument("--reason", default="", help="reason, recorded in the audit log (required with --stop)")
        parser.add_argument("--watch", action="store_true", help="print events until the run or restore test ends")
        parser.add_argument("--stop", action="store_true", help="stop the unfinished run and delete its file")
        parser.add_argument(
            "--force-fail", action="store_true", help="mark a lost run as failed without contacting its host"
        )
        parser.add_argument(
            "--restore-test",
            type=int,
            metavar="RUN",
            help="restore the backup of this run on a scratch server and read every table",
        )
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object per line; the last one is the result"
        )
        parser.add_argument(
            "--as", dest="user", help="act as this operator (default: cli-<login name>, created if missing)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json = options["json"]
        actor = actor_named(options["user"])
        if options["restore_test"] is not None:
            self._run_restore_test(options["restore_test"], actor, options)
            return
        schedule = self._schedule(options["name"])
        try:
            if options["stop"] or options["force_fail"]:
                run = self._unfinished(schedule)
                (stop_run if options["stop"] else force_fail_run)(run, actor, options["reason"])
            else:
                run = run_now(schedule, actor, options["reason"])
        except Refused as error:
            self._refuse(error)
        run.refresh_from_db()
        if options["watch"]:
            sys.exit(self._watch(run))
        self._write({"backup_run": run.pk, "status": run.status}, f"Backup run {run.pk} is {run.status}.")

    def _schedule(self, name: str) -> BackupSchedule:
        if found := BackupSchedule.objects.select_related("instance").filter(name=name).first():
            return found
        if not Instance.objects.filter(name=name).exists():
            raise CommandError(f"There is no schedule or instance named {name!r}.", returncode=REFUSED)
        schedules = list(
            BackupSchedule.objects.select_related("instance").filter(instance__name=name, run_by=RunBy.DBOPS)
        )
        if len(schedules) == 1:
            return schedules[0]
        known = ", ".join(schedule.name for schedule in schedules) or "none run by dbops"
        raise CommandError(f"Name a schedule of {name}: {known}.", returncode=REFUSED)

    def _run_restore_test(self, run_id: int, actor: User, options: dict[str, Any]) -> None:
        run = BackupRun.objects.select_related("instance").filter(pk=run_id).first()
        if run is None:
            raise CommandError(f"There is no backup run {run_id}.", returncode=REFUSED)
        seen = run.events.order_by("-pk").values_list("pk", flat=True).first() or 0
        try:
            restore_test = request_restore_test(run, actor, options["reason"])
        except Refused as error:
            self._refuse(error)
        while options["watch"]:
            restore_test.refresh_from_db()
            seen = self._write_events(run, seen)
            if restore_test.is_over:
                break
            time.sleep(WATCH_SECONDS)
        result = {
            "restore_test": restore_test.pk,
            "status": restore_test.status,
            "steps": restore_test.steps,
            "tables": restore_test.tables_checked,
            "rows": restore_test.rows_counted,
            "warnings": restore_test.result.get("warnings", []),
            "error": restore_test.error,
        }
        self._write(result, f"Restore test {restore_test.pk} is {restore_test.status}.")
        if options["watch"]:
            sys.exit(EXIT_STATUS.get(RunStatus(restore_test.status), 1))

    def _unfinished(self, schedule: BackupSchedule) -> BackupRun:
        run = schedule.runs.select_related("instance").exclude(status__in=RUN_FINAL).order_by("pk").last()
        if run is None:
            raise CommandError(f"{schedule.name} has no unfinished run.", returncode=REFUSED)
        return run

    def _refuse(self, error: Refused) -> NoReturn:
        self._write({"status": "refused", "error": error.as_record()}, f"Refused: {error}")
        sys.exit(REFUSED)

    def _write(self, record: dict[str, Any], text: str) -> None:
        self.stdout.write(json.dumps(record) if self.as_json else text)
        self.stdout.flush()

    def _watch(self, run: BackupRun) -> int:
        seen = 0
        while True:
            run.refresh_from_db()
            seen = self._write_events(run, seen)
            if run.status in RUN_FINAL:
                break
            time.sleep(WATCH_SECONDS)
        result = {
            "backup_run": run.pk,
            "status": run.status,
            "outcome": run.outcome,
            "path": run.path,
            "bytes": run.bytes_written,
            "flags": run.flags,
            "error": run.error,
        }
        self._write(result, f"{run.status}: {run.outcome}")
        return EXIT_STATUS.get(RunStatus(run.status), 1)

    def _write_events(self, run: BackupRun, seen: int) -> int:
        """Write the run's events after ``seen`` and return the number of the last one."""
        for event in run.events.filter(pk__gt=seen):
            seen = event.pk
            record = {"at": event.at.isoformat(), "level": event.level, "text": event.text}
            self._write(record, f"{event.at:%H:%M:%S} {event.text}")
        return seen
