"""Drive one managed backup run for one tick.

A run is one job without steps. It always ends in a defined way: a failed or stopped run removes its partial file
first, an unreachable host keeps the hold until it answers, and a new driver finds the job by its name instead of
starting a second one.
"""

import json
import logging
import time
from contextlib import ExitStack
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.utils import timezone

from dbops.database.errors import AWAY
from dbops.engine.backups.flags import RunFlag
from dbops.engine.backups.job import BackupContext, PublishedBackup, Removal, advance, clean_up, remove
from dbops.engine.backups.plan import BackupPlan, BackupSettings, plan_backup
from dbops.engine.backups.retention import StoredBackup, spared, to_remove
from dbops.engine.errors import Bug, Cancelled, DbopsError, Unreachable
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.states import BackupMethod, Level, Role, RunStatus
from dbops.engine.topology.difference_kinds import REPLACED
from dbops.lifecycle import backup_runs, leases
from dbops.lifecycle.backup_runs import BackupRunUpdate, RunLease
from dbops.lifecycle.leases import LeaseLost
from dbops.loaders.plan_inputs import restore_tests_of_runs
from dbops.models import BackupEvent, BackupRun, TopologyDifference
from dbops.security.redaction import redact, redact_record
from dbops.worker import prober
from dbops.worker.driver import LOST_RETRY_SECONDS, RETRY_SECONDS, drive_once
from dbops.worker.wiring import build_site, jobs_of, secrets_of

log = logging.getLogger(__name__)

WRITE_INTERVAL_SECONDS = 1.0


def tick(run_id: int) -> bool:
    """Drive one backup run for at most ``TICK_SECONDS``.

    Return whether more work is due at once. Never raises for host errors.
    """
    lease = backup_runs.take_run_lease(run_id)

    def drive(until: float) -> float | None:
        assert lease is not None  # noqa: S101 - it is not driven without
        with ExitStack() as stack:
            return Driver(lease, stack).drive(until=until)

    return drive_once(lease, drive)


class Journal:
    """Collect events and changes, and write them at most once a second.

    Each write is the heartbeat and the cancel check.
    """

    def __init__(self, lease: RunLease, secrets: list[str], checkpoint: dict[str, Any]) -> None:
        self.checkpoint = checkpoint
        self.cancellable = True
        self._lease, self._secrets = lease, secrets
        self._news = BackupRunUpdate()
        self._written_at, self._written_memory = 0.0, ""

    def say(self, text: str, *, level: Level = Level.INFO) -> None:
        line = redact(text, self._secrets)
        self._news.events.append(BackupEvent(run=self._lease.run, at=timezone.now(), level=level, text=line))

    def progress(self, **known: Any) -> None:
        self._news.changes["progress"] = known
        if known.get("bytes") is not None:
            self._news.changes["bytes_written"] = known["bytes"]

    def note(self, **changes: Any) -> None:
        """Set columns of the run with the next write."""
        self._news.changes.update(changes)

    def check(self) -> None:
        if time.monotonic() - self._written_at >= WRITE_INTERVAL_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write everything now. Raises ``LeaseLost``, or ``Cancelled`` if a person requested the stop."""
        cancel = backup_runs.heartbeat_run(self._lease, self.take())
        self._written_at = time.monotonic()
        if cancel and self.cancellable and not self.checkpoint.get("publishing"):
            raise Cancelled("backup.cancelled", "Running the backup", found="a person requested the stop")

    def take(self) -> BackupRunUpdate:
        """Return the pending changes, with the checkpoint if it has changed."""
        news, self._news = self._news, BackupRunUpdate()
        checkpoint = redact_record(self.checkpoint, self._secrets, limit=None)
        text = json.dumps(checkpoint, sort_keys=True)
        if text != self._written_memory:
            self._written_memory = text
            news.changes["checkpoint"] = checkpoint
        return news


class Driver:
    """Drive one leased run."""

    def __init__(self, lease: RunLease, stack: ExitStack) -> None:
        self.lease, self.run, self.stack = lease, lease.run, stack
        self.checkpoint: dict[str, Any] = dict(self.run.checkpoint)
        self.journal = Journal(lease, secrets_of(self.run.instance.cluster), self.checkpoint)
        self.site: BackupContext | None = None

    def drive(self, *, until: float) -> float | None:
        """Advance the run. Return seconds until the next tick, or ``None`` if it has ended."""
        if self.lease.reattached_after_seconds is not None:
            self.journal.say(f"Reattached after {self.lease.reattached_after_seconds:.0f} s.")
        while time.monotonic() < until:
            try:
                if "pending_status" in self.checkpoint:
                    self._end()
                    return None
                published = self._advance()
                if (
                    self.run.unreachable_since and "pending_status" not in self.checkpoint
                ):  # otherwise the host may not have been contacted
                    leases.mark_reachable(self.lease)
                if published is not None:
                    self._finish(published)
                    return None
            except Unreachable as error:
                return self._unreachable(error)
        self.journal.flush()
        return 0.0

    def _advance(self) -> PublishedBackup | None:
        try:
            self.journal.check()
            return advance(self._site())
        except Cancelled:
            self._begin_ending(RunStatus.CANCELLED, None)
        except (Unreachable, LeaseLost, SoftTimeLimitExceeded, *AWAY):
            raise
        except DbopsError as error:
            log.warning("backup run %s: %s", self.run.pk, error)
            self._begin_ending(RunStatus.FAILED, error)
        except Exception as error:
            log.exception("backup run %s", self.run.pk)
            found = f"{type(error).__name__}: {error}"
            bug = Bug("bug", f"Backup run {self.run.pk}", found=found, next_step="Please report this.")
            self._begin_ending(RunStatus.FAILED, bug)
        return None

    # --- the plan -------------------------------------------------------------------------------------------------
    def _site(self) -> BackupContext:
        """Return the connection to the host and its plan, which is made once from a new probe."""
        if self.site is not None:
            return self.site
        if "plan" not in self.checkpoint:
            self._remove_leftovers(is_final_kept=True)
            plan = self._plan()
            self.checkpoint["plan"] = to_record(plan)
            self.journal.note(path=plan.partial_path)
        plan = from_record(BackupPlan, self.checkpoint["plan"])
        self.site = build_site(self.run, plan, self.checkpoint, self.journal, self.stack)
        if self.lease.reattached_after_seconds is not None and self.checkpoint.get("asked"):
            self.site.jobs.act("true")  # from now on the host refuses the fence of a slow former driver
        return self.site

    def _plan(self) -> BackupPlan:
        run, instance, schedule = self.run, self.run.instance, self.run.schedule
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
        if last is None or self.run.schedule is None or last.instance_id != self.run.instance_id:
            return ""
        is_same = last.path.rpartition("/")[0] == self.run.schedule.directory.rstrip("/")
        return str(last.evidence.get("mount", "")) if is_same else ""

    def _remove_leftovers(self, *, is_final_kept: bool) -> None:
        """Remove the leftovers of failed runs whose hosts were unreachable.

        The published file of such a run may be the only backup: it is kept until a new backup exists.
        """
        for dead in backup_runs.leftovers(self.run):
            if "plan" not in dead.checkpoint or dead.pk == self.run.pk:
                continue
            plan = from_record(BackupPlan, dead.checkpoint["plan"])
            site = build_site(dead, plan, dict(dead.checkpoint), self.journal, self.stack)
            site.jobs = jobs_of(self.run, dead.uid, self.stack)
            try:
                clean_up(site, is_final_kept=is_final_kept)
            except Unreachable:
                raise
            except DbopsError as error:
                self.journal.say(
                    f"Could not remove the leftovers of backup run {dead.pk}: {error}", level=Level.WARNING
                )
                continue
            if is_final_kept and "final" in dead.checkpoint:
                self.journal.say(f"The file of backup run {dead.pk} is kept until this run succeeds.")
            else:
                backup_runs.mark_removed(dead, f"Backup run {self.run.pk} removed the leftovers on the host.")
                self.journal.say(f"Removed the leftovers of backup run {dead.pk}.")

    # --- silence --------------------------------------------------------------------------------------------------
    def _unreachable(self, error: Unreachable) -> float | None:
        """Handle an unreachable host.

        Before the job was requested, the run fails after a timeout; afterwards dbops retries.
        """
        self.journal.cancellable = False
        self.journal.flush()
        if not self.checkpoint.get("asked") and self._silent_seconds() > settings.UNREACHABLE_TIMEOUT_SECONDS:
            error.left, error.next_step = "Nothing was written.", "Check the host, then run the backup again."
            self._begin_ending(RunStatus.FAILED, error)
            self._end()
            return None
        text = f"{error} The job may still be running on the host. dbops retries."
        self.run.unreachable_since = leases.mark_unreachable(self.lease, text)
        return LOST_RETRY_SECONDS if self.run.status == RunStatus.LOST else RETRY_SECONDS

    def _silent_seconds(self) -> float:
        since = self.run.unreachable_since
        return (timezone.now() - since).total_seconds() if since else 0.0

    # --- ends -----------------------------------------------------------------------------------------------------
    def _begin_ending(self, status: RunStatus, error: DbopsError | None) -> None:
        """Store the coming end: the next driver cleans up without looking at the job."""
        record = redact_record(error.as_record(), secrets_of(self.run.instance.cluster)) if error else {}
        self.checkpoint["pending_status"] = {
            "status": status.value,
            "error": record,
            "text": str(error) if error else "",
        }
        self.journal.cancellable = False
        self.journal.flush()

    def _end(self) -> None:
        self.journal.cancellable = False
        pending_status = self.checkpoint["pending_status"]
        is_clean = self._clean_up() if "plan" in self.checkpoint else True
        if self.run.unreachable_since and self.checkpoint.get("asked"):  # the clean-up reached the host
            leases.mark_reachable(self.lease)
        self.journal.note(unreachable_since=None)
        status = RunStatus(pending_status["status"])
        if pending_status["text"]:
            self.journal.say(pending_status["text"], level=Level.ERROR)
        if is_clean:
            self.journal.note(path="")
        self.journal.note(error=pending_status["error"])
        nothing = "Its files were removed." if is_clean else "Its partial file could not be removed."
        why = pending_status["error"].get("found", "") if status is RunStatus.FAILED else self._who_stopped_it()
        backup_runs.finish_run(self.lease, status, f"{why.rstrip('.')}. {nothing}".lstrip(". "), self.journal.take())

    def _who_stopped_it(self) -> str:
        by = BackupRun.objects.values_list("cancel_requested_by", flat=True).get(pk=self.run.pk)
        return f"Stopped by {by}" if by else "Stopped"

    def _clean_up(self) -> bool:
        try:
            clean_up(self._site())
        except Unreachable:
            raise
        except DbopsError as error:
            self.journal.say(f"Clean-up: {error}", level=Level.WARNING)
            return False
        return True

    def _finish(self, published: PublishedBackup) -> None:
        self.journal.cancellable = False
        self.journal.note(
            path=published.path,
            bytes_written=published.bytes,
            exit_status=0,
            evidence=published.record,
            progress={"bytes": published.bytes, "total_bytes": published.bytes, "percent": 100.0},
        )
        outcome = f"Published as {published.path}."
        backup_runs.finish_run(self.lease, RunStatus.SUCCEEDED, outcome, self.journal.take())
        try:
            self._tidy()
        finally:
            backup_runs.write_late_update(self.run, self.journal.take())

    def _tidy(self) -> None:
        """Remove files that this backup replaces, after it was recorded and flagged: it may be of an emptied server.

        Problems do not affect the new backup: the next run removes what is left.
        """
        if why := self._why_all_is_kept():
            text = f"Older backups are kept: {why}. Check this backup; the next normal run removes them."
            self.journal.say(text, level=Level.WARNING)
            return
        try:
            self._remove_leftovers(is_final_kept=False)
        except Unreachable as error:
            self.journal.say(f"Could not remove the leftovers of failed backups: {error}", level=Level.WARNING)
        self._remove_older()

    def _why_all_is_kept(self) -> str:
        """Return why this backup may be of the wrong data; empty if there is no sign."""
        run = self.run
        if RunFlag.SMALL in run.flags:
            return f"this backup is unusually small ({run.bytes_written} bytes)"
        changed = TopologyDifference.objects.filter(
            cluster_id=run.instance.cluster_id,
            subject=run.instance.name,
            code__in=REPLACED,
            gone_at=None,
            accepted_at=None,
        )
        return "the server or its data may have been replaced" if changed.exists() else ""

    def _remove_older(self) -> None:
        """Apply the schedule's retention."""
        run, schedule, now = self.run, self.run.schedule, timezone.now()
        if schedule is None or self.site is None:
            return
        rows = {item.pk: item for item in backup_runs.kept_runs(schedule)}
        read = backup_runs.runs_being_read()  # read first: a restore test that ends later is seen as running or ended
        restore_tested = {pk for pk, restore_test in restore_tests_of_runs(list(rows)).items() if restore_test.is_good}
        kept = [
            StoredBackup(
                item.pk, item.uid, item.started_at or now, item.path, is_restore_tested=item.pk in restore_tested
            )
            for item in rows.values()
            if item.instance_id == run.instance_id
        ]
        if stays := spared(kept, keep_count=schedule.keep_count, keep_days=schedule.keep_days, now=now):
            text = f"{stays.path} of backup run {stays.pk} is kept until a newer backup of this schedule is restore-tested."
            self.journal.say(text)
        for old, why in to_remove(kept, keep_count=schedule.keep_count, keep_days=schedule.keep_days, now=now):
            if old.pk in read:
                self.journal.say(
                    f"{old.path} of backup run {old.pk} is kept for now: a rebuild or restore test reads it."
                )
                continue
            try:
                end = remove(self.site, [old.path])[old.path]
            except DbopsError as error:
                self.journal.say(f"Could not remove older backups: {error}", level=Level.WARNING)
                return
            if end is Removal.REMOVED:
                text = f"Backup run {run.pk} removed {old.path}: {why}."
                backup_runs.mark_removed(rows[old.pk], text)
                self.journal.say(f"Removed {old.path} of backup run {old.pk}: {why}.")
            elif end is Removal.ABSENT:
                text = f"{old.path} of backup run {old.pk} is due for removal ({why}), but was not found."
                self.journal.say(text, level=Level.WARNING)
            else:
                self.journal.say(f"Could not remove {old.path} of backup run {old.pk}.", level=Level.WARNING)
