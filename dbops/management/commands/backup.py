"""``manage.py backup``: run or stop a backup that dbops makes. Exit status: 0 succeeded, 1 failed, 2 refused, 3 stopped."""

import json
import sys
import time
from typing import Any, NoReturn

from django.core.management.base import CommandError, CommandParser

from dbops.engine.backups import RUN_FINAL, RunBy, RunStatus
from dbops.engine.errors import Refused
from dbops.management.command import DbopsCommand
from dbops.management.people import actor_named
from dbops.models import BackupRun, BackupSchedule, Instance
from dbops.operations.backups import give_up_run, run_now, stop_run

EXIT_STATUS = {RunStatus.SUCCEEDED: 0, RunStatus.CANCELLED: 3}
REFUSED = 2
WATCH_SECONDS = 0.5


class Command(DbopsCommand):
    help = "Run a backup now, watch it, or stop it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="name of a schedule, or of an instance that has one schedule")
        parser.add_argument("--reason", default="", help="why; written into the audit log (needed to stop)")
        parser.add_argument("--watch", action="store_true", help="wait for the end and print what happens")
        parser.add_argument("--stop", action="store_true", help="stop the run that waits or runs; its file is removed")
        parser.add_argument("--give-up", action="store_true", help="end a lost run without its host")
        parser.add_argument("--json", action="store_true", help="one JSON object a line; the last one is the result")
        parser.add_argument("--as", dest="user", help="operator's name (default: cli-<login name>, made when missing)")

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json = options["json"]
        schedule, actor = self._schedule(options["name"]), actor_named(options["user"])
        try:
            if options["stop"] or options["give_up"]:
                run = self._unfinished(schedule)
                (stop_run if options["stop"] else give_up_run)(run, actor, options["reason"])
            else:
                run = run_now(schedule, actor, options["reason"])
        except Refused as error:
            self._refuse(error)
        run.refresh_from_db()
        if options["watch"]:
            sys.exit(self._watch(run))
        self._tell({"backup_run": run.pk, "status": run.status}, f"Backup run {run.pk} is {run.status}.")

    def _schedule(self, name: str) -> BackupSchedule:
        if found := BackupSchedule.objects.select_related("instance").filter(name=name).first():
            return found
        if not Instance.objects.filter(name=name).exists():
            raise CommandError(f"There is no schedule and no instance named {name!r}.", returncode=REFUSED)
        schedules = list(
            BackupSchedule.objects.select_related("instance").filter(instance__name=name, run_by=RunBy.DBOPS)
        )
        if len(schedules) == 1:
            return schedules[0]
        known = ", ".join(schedule.name for schedule in schedules) or "none that dbops runs"
        raise CommandError(f"Name a schedule of {name}; it has: {known}.", returncode=REFUSED)

    def _unfinished(self, schedule: BackupSchedule) -> BackupRun:
        run = schedule.runs.select_related("instance").exclude(status__in=RUN_FINAL).order_by("pk").last()
        if run is None:
            raise CommandError(f"{schedule.name} has no unfinished run.", returncode=REFUSED)
        return run

    def _refuse(self, error: Refused) -> NoReturn:
        self._tell({"status": "refused", "error": error.as_record()}, f"Refused: {error}")
        sys.exit(REFUSED)

    def _tell(self, record: dict[str, Any], text: str) -> None:
        self.stdout.write(json.dumps(record) if self.as_json else text)
        self.stdout.flush()

    def _watch(self, run: BackupRun) -> int:
        seen = 0
        while True:
            run.refresh_from_db()
            for event in run.events.filter(pk__gt=seen):
                seen = event.pk
                record = {"at": event.at.isoformat(), "level": event.level, "text": event.text}
                self._tell(record, f"{event.at:%H:%M:%S} {event.text}")
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
        self._tell(result, f"{run.status}: {run.outcome}")
        return EXIT_STATUS.get(RunStatus(run.status), 1)
