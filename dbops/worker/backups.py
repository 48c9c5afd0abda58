"""Drive one managed backup run for one tick.

A failed or stopped run removes its partial file before it ends. An unreachable host keeps the hold until it answers.
"""

from contextlib import ExitStack
from typing import Any

from dbops.database import clock
from dbops.engine.backups.job import BackupContext, PublishedBackup, advance, clean_up
from dbops.engine.backups.plan import BackupPlan, BackupSettings, plan_backup
from dbops.engine.facts.instance import from_record
from dbops.engine.phrases import phrase
from dbops.engine.states import BackupMethod, Role, RunStatus
from dbops.lifecycle import backup_runs
from dbops.lifecycle.backup_runs import RunLease
from dbops.loaders.accounts import secrets_of
from dbops.models import BackupRun
from dbops.worker import prober
from dbops.worker.backup_files import BackupFiles
from dbops.worker.journal import BackupJournal
from dbops.worker.run_driver import RunDriver
from dbops.worker.wiring import build_context, jobs_of


class BackupDriver(RunDriver[BackupRun, PublishedBackup | None, BackupContext]):
    """Make one backup, then remove the files that it replaces."""

    journal: BackupJournal
    take_lease = staticmethod(backup_runs.take_lease)

    def __init__(self, lease: RunLease, stack: ExitStack) -> None:
        super().__init__(lease, stack)
        self.journal = BackupJournal(lease, secrets_of(self.row.instance.cluster), self.checkpoint)
        self.files = BackupFiles(self.row, self.journal, stack)

    def step(self) -> PublishedBackup | None:
        return advance(self.context)

    def record(self, result: PublishedBackup | None) -> None:
        if result is None:
            return
        self.journal.cancellable = False
        self.journal.note(
            path=result.path,
            bytes_written=result.bytes,
            exit_status=0,
            evidence=result.record,
            progress={"bytes": result.bytes, "total_bytes": result.bytes, "percent": 100.0},
        )
        backup_runs.finish(
            self.lease, RunStatus.SUCCEEDED, phrase("Published as {path}.", path=result.path), self.journal.take()
        )
        self.has_ended = True
        try:
            self.files.remove_superfluous(self.context)
        finally:
            backup_runs.write_late_update(self.row, self.journal.take())

    # --- the plan -------------------------------------------------------------------------------------------------
    def make_plan(self) -> BackupPlan:
        self.files.remove_leftovers(is_final_kept=True)
        plan = self._plan()
        self.journal.note(path=plan.partial_path)
        return plan

    def connect(self) -> BackupContext:
        plan = from_record(BackupPlan, self.checkpoint["plan"])
        context = build_context(self.row, plan, self.checkpoint, self.journal, self.stack)
        self.raise_fence(context.jobs)
        return context

    def _plan(self) -> BackupPlan:
        run, instance, schedule = self.row, self.row.instance, self.row.schedule
        facts = prober.probe_now(instance)
        last = next(iter(backup_runs.kept_runs(schedule)), None) if schedule else None
        return plan_backup(
            BackupSettings(
                run_id=run.uid,
                instance=instance.name,
                schedule=schedule.name if schedule else "",
                method=BackupMethod(run.method),
                directory=schedule.directory if schedule else "",
                defaults_file=instance.defaults_file,
                last_bytes=last.bytes_written if last else None,
                last_mount=self._last_mount(last),
                role=Role(instance.role),
            ),
            facts,
            started_at=run.started_at or clock.now(),
            run_directory=jobs_of(run, run.uid, self.stack).run_directory,
        )

    def _last_mount(self, last: BackupRun | None) -> str:
        """Return the mount point of the last backup; empty if the schedule has a different directory now."""
        if last is None or self.row.schedule is None or last.instance_id != self.row.instance_id:
            return ""
        is_same = last.path.rpartition("/")[0] == self.row.schedule.directory.rstrip("/")
        return str(last.evidence.get("mount", "")) if is_same else ""

    # --- the end --------------------------------------------------------------------------------------------------
    def clean_up(self) -> bool:
        clean_up(self.context)
        return True

    def end(self, status: RunStatus, error: dict[str, Any], *, is_clean: bool) -> None:
        self.journal.note(error=error, **({"path": ""} if is_clean else {}))
        nothing = "Its files were removed." if is_clean else "Its partial file could not be removed."
        why = error.get("cause", "") if status is RunStatus.FAILED else self._who_stopped_it()
        backup_runs.finish(self.lease, status, f"{why.rstrip('.')}. {nothing}".lstrip(". "), self.journal.take())

    def _who_stopped_it(self) -> str:
        by = BackupRun.objects.values_list("cancel_requested_by", flat=True).get(pk=self.row.pk)
        return f"Stopped by {by}" if by else "Stopped"
