"""Remove backup files on their host: leftovers of failed runs, and files that a new backup replaces."""

from contextlib import ExitStack

from dbops.database import clock
from dbops.engine.backups.flags import RunFlag
from dbops.engine.backups.job import BackupContext, RemovalResult, clean_up, remove
from dbops.engine.backups.plan import BackupPlan
from dbops.engine.backups.retention import StoredBackup, spared, to_remove
from dbops.engine.errors import DbopsError, Unreachable
from dbops.engine.facts.instance import from_record
from dbops.engine.phrases import phrase
from dbops.engine.states import Level
from dbops.engine.topology.difference_kinds import REPLACED
from dbops.lifecycle import backup_runs
from dbops.loaders.plan_inputs import restore_tests_of_runs
from dbops.models import BackupRun, TopologyDifference
from dbops.worker.journal import BackupJournal
from dbops.worker.wiring import build_context, jobs_of


class BackupFiles:
    """Removes the files of older runs on the host of one run."""

    def __init__(self, run: BackupRun, journal: BackupJournal, stack: ExitStack) -> None:
        self.run, self.journal, self.stack = run, journal, stack

    def remove_leftovers(self, *, is_final_kept: bool) -> None:
        """Remove the leftovers of failed runs whose hosts were unreachable.

        The published file of such a run may be the only backup: it is kept until a new backup exists.
        """
        for dead in backup_runs.leftovers(self.run):
            if "plan" not in dead.checkpoint or dead.pk == self.run.pk:
                continue
            plan = from_record(BackupPlan, dead.checkpoint["plan"])
            context = build_context(dead, plan, dict(dead.checkpoint), self.journal, self.stack)
            context.jobs = jobs_of(self.run, dead.uid, self.stack)
            try:
                clean_up(context, is_final_kept=is_final_kept)
            except Unreachable:
                raise
            except DbopsError as error:
                self.journal.say(
                    phrase("Could not remove the leftovers of backup run {run}: {error}", run=dead.pk, error=error),
                    level=Level.WARNING,
                )
                continue
            if is_final_kept and "final" in dead.checkpoint:
                self.journal.say(phrase("The file of backup run {run} is kept until this run succeeds.", run=dead.pk))
            else:
                backup_runs.mark_removed(
                    dead, phrase("Backup run {run} removed the leftovers on the host.", run=self.run.pk)
                )
                self.journal.say(phrase("Removed the leftovers of backup run {run}.", run=dead.pk))

    def remove_superfluous(self, context: BackupContext) -> None:
        """Remove files that this backup replaces, after it was recorded and flagged: it may be of an emptied server.

        Problems do not affect the new backup: the next run removes the rest.
        """
        if why := self._why_all_is_kept():
            text = phrase(
                "Older backups are kept: {why}. Check this backup; the next normal run removes them.", why=why
            )
            self.journal.say(text, level=Level.WARNING)
            return
        try:
            self.remove_leftovers(is_final_kept=False)
        except Unreachable as error:
            self.journal.say(
                phrase("Could not remove the leftovers of failed backups: {error}", error=error), level=Level.WARNING
            )
        self._remove_older(context)

    def _why_all_is_kept(self) -> str:
        """Return why this backup may be of the wrong data; empty if there is no sign."""
        run = self.run
        if RunFlag.SMALL in run.flags:
            return phrase("this backup is unusually small ({size} bytes)", size=run.bytes_written)
        changed = TopologyDifference.objects.filter(
            cluster_id=run.instance.cluster_id,
            subject=run.instance.name,
            code__in=REPLACED,
            gone_at=None,
            accepted_at=None,
        )
        return phrase("the server or its data may have been replaced") if changed.exists() else ""

    def _remove_older(self, context: BackupContext) -> None:
        """Apply the schedule's retention."""
        run, schedule, now = self.run, self.run.schedule, clock.now()
        if schedule is None:
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
            text = phrase(
                "{path} of backup run {run} is kept until a newer backup of this schedule is restore-tested.",
                path=stays.path,
                run=stays.pk,
            )
            self.journal.say(text)
        for old, why in to_remove(kept, keep_count=schedule.keep_count, keep_days=schedule.keep_days, now=now):
            if old.pk in read:
                self.journal.say(
                    phrase(
                        "{path} of backup run {run} is kept for now: a rebuild or restore test reads it.",
                        path=old.path,
                        run=old.pk,
                    )
                )
                continue
            try:
                end = remove(context, [old.path])[old.path]
            except DbopsError as error:
                self.journal.say(phrase("Could not remove older backups: {error}", error=error), level=Level.WARNING)
                return
            if end is RemovalResult.REMOVED:
                text = phrase("Backup run {by} removed {path}: {why}.", by=run.pk, path=old.path, why=why)
                backup_runs.mark_removed(rows[old.pk], text)
                self.journal.say(
                    phrase("Removed {path} of backup run {run}: {why}.", path=old.path, run=old.pk, why=why)
                )
            elif end is RemovalResult.ABSENT:
                text = phrase(
                    "{path} of backup run {run} is due for removal ({why}), but was not found.",
                    path=old.path,
                    run=old.pk,
                    why=why,
                )
                self.journal.say(text, level=Level.WARNING)
            else:
                self.journal.say(
                    phrase("Could not remove {path} of backup run {run}.", path=old.path, run=old.pk),
                    level=Level.WARNING,
                )
