"""Drive one managed backup run for one tick.

A run is one job without steps. It always ends in a defined way: a failed or stopped run removes its partial file
first, an unreachable host keeps the hold until it answers, and a new driver finds the job by its name instead of
starting a second one.
"""

from contextlib import ExitStack

from django.utils import timezone

from dbops.engine.backups.job import BackupContext, PublishedBackup, advance, clean_up
from dbops.engine.backups.plan import BackupPlan, BackupSettings, plan_backup
from dbops.engine.errors import DbopsError, Unreachable
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.states import BackupMethod, Level, Role, RunStatus
from dbops.lifecycle import backup_runs, leases
from dbops.lifecycle.backup_runs import RunLease
from dbops.models import BackupRun
from dbops.worker import prober
from dbops.worker.backup_files import BackupFiles
from dbops.worker.driver import Driver
from dbops.worker.journal import BackupJournal
from dbops.worker.wiring import build_context, jobs_of, secrets_of


def tick(run_id: int) -> bool:
    """Drive one backup run for at most ``TICK_SECONDS``.

    Return whether more work is due at once. Never raises for host errors.
    """
    return BackupDriver.tick(backup_runs.take_lease(run_id))


class BackupDriver(Driver[BackupRun, PublishedBackup | None]):
    """Make one backup, then remove the files that it replaces."""

    journal: BackupJournal

    def __init__(self, lease: RunLease, stack: ExitStack) -> None:
        super().__init__(lease, stack)
        self.checkpoint = dict(self.row.checkpoint)
        self.journal = BackupJournal(lease, secrets_of(self.row.instance.cluster), self.checkpoint)
        self.files = BackupFiles(self.row, self.journal, stack)
        self.context: BackupContext | None = None

    def is_ending(self) -> bool:
        return "pending_status" in self.checkpoint

    def step(self) -> PublishedBackup | None:
        return advance(self._context())

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
        backup_runs.finish(self.lease, RunStatus.SUCCEEDED, f"Published as {result.path}.", self.journal.take())
        self.has_ended = True
        try:
            self.files.remove_superfluous(self._context())
        finally:
            backup_runs.write_late_update(self.row, self.journal.take())

    # --- the plan -------------------------------------------------------------------------------------------------
    def _context(self) -> BackupContext:
        """Return the connection to the host and its plan, which is made once from a new probe."""
        if self.context is not None:
            return self.context
        if "plan" not in self.checkpoint:
            self.files.remove_leftovers(is_final_kept=True)
            plan = self._plan()
            self.checkpoint["plan"] = to_record(plan)
            self.journal.note(path=plan.partial_path)
        plan = from_record(BackupPlan, self.checkpoint["plan"])
        context = build_context(self.row, plan, self.checkpoint, self.journal, self.stack)
        self.raise_fence(context.jobs)
        self.context = context
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
            started_at=run.started_at or timezone.now(),
            run_directory=jobs_of(run, run.uid, self.stack).run_directory,
        )

    def _last_mount(self, last: BackupRun | None) -> str:
        """Return the mount point of the last backup; empty if the schedule has a different directory now."""
        if last is None or self.row.schedule is None or last.instance_id != self.row.instance_id:
            return ""
        is_same = last.path.rpartition("/")[0] == self.row.schedule.directory.rstrip("/")
        return str(last.evidence.get("mount", "")) if is_same else ""

    # --- ends -----------------------------------------------------------------------------------------------------
    def may_give_up(self, error: Unreachable) -> bool:
        if self.checkpoint.get("asked"):
            return False
        error.state, error.next_step = "Nothing was written.", "Check the host, then run the backup again."
        return True

    def begin_ending(self, error: DbopsError | None) -> None:
        status = RunStatus.FAILED if error else RunStatus.CANCELLED
        record = self.journal.redact_record(error.as_record()) if error else {}
        self.checkpoint["pending_status"] = {
            "status": status.value,
            "error": record,
            "text": str(error) if error else "",
        }
        self.journal.cancellable = False
        self.journal.flush()

    def finish(self) -> None:
        self.journal.cancellable = False
        pending_status = self.checkpoint["pending_status"]
        is_clean = self._clean_up() if "plan" in self.checkpoint else True
        if self.row.unreachable_since and self.checkpoint.get("asked"):  # the clean-up reached the host
            leases.mark_reachable(self.lease)
        self.journal.note(unreachable_since=None, error=pending_status["error"])
        status = RunStatus(pending_status["status"])
        if pending_status["text"]:
            self.journal.say(pending_status["text"], level=Level.ERROR)
        if is_clean:
            self.journal.note(path="")
        nothing = "Its files were removed." if is_clean else "Its partial file could not be removed."
        why = pending_status["error"].get("cause", "") if status is RunStatus.FAILED else self._who_stopped_it()
        backup_runs.finish(self.lease, status, f"{why.rstrip('.')}. {nothing}".lstrip(". "), self.journal.take())
        self.has_ended = True

    def _who_stopped_it(self) -> str:
        by = BackupRun.objects.values_list("cancel_requested_by", flat=True).get(pk=self.row.pk)
        return f"Stopped by {by}" if by else "Stopped"

    def _clean_up(self) -> bool:
        try:
            clean_up(self._context())
        except Unreachable:
            raise
        except DbopsError as error:
            self.journal.say(f"Clean-up: {error}", level=Level.WARNING)
            return False
        return True
