"""Removes files of backups on their host: what failed runs left, and what a new backup makes superfluous."""

from contextlib import ExitStack

from django.utils import timezone

from dbops.engine.backups.flags import RunFlag
from dbops.engine.backups.job import BackupContext, Removal, clean_up, remove
from dbops.engine.backups.plan import BackupPlan
from dbops.engine.backups.retention import StoredBackup, spared, to_remove
from dbops.engine.errors import DbopsError, Unreachable
from dbops.engine.facts.instance import from_record
from dbops.engine.states import Level
from dbops.engine.topology.difference_kinds import REPLACED
from dbops.lifecycle import backup_runs
from dbops.loaders.plan_inputs import restore_tests_of_runs
from dbops.models import BackupRun, TopologyDifference
from dbops.worker.journal import BackupJournal
from dbops.worker.wiring import build_site, jobs_of


class BackupFiles:
    """The files of older runs, as one run meets them."""

    def __init__(self, run: BackupRun, journal: BackupJournal, stack: ExitStack) -> None:
        self.run, self.journal, self.stack = run, journal, stack

    def remove_leftovers(self, *, is_final_kept: bool) -> None:
        """What runs that ended badly could not remove, because their host was silent.

        What one of them has published may be the only backup there is: it goes only after another was made.
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
                self.journal.say(f"What backup run {dead.pk} left could not be removed: {error}", level=Level.WARNING)
                continue
            if is_final_kept and "final" in dead.checkpoint:
                self.journal.say(f"What backup run {dead.pk} may have published is kept until this one has succeeded.")
            else:
                backup_runs.mark_removed(dead, f"What it left on the host was removed by backup run {self.run.pk}.")
                self.journal.say(f"Removed what backup run {dead.pk} had left on the host.")

    def remove_superfluous(self, site: BackupContext) -> None:
        """Remove what this backup makes superfluous, only after it was recorded and judged: it may be one of an emptied server.

        It never spoils the backup that was just made: what cannot be removed now is removed after the next one.
        """
        if why := self._why_all_is_kept():
            text = f"No older backup is removed: {why}. Look at this backup; the next one that is as usual removes what is due."
            self.journal.say(text, level=Level.WARNING)
            return
        try:
            self.remove_leftovers(is_final_kept=False)
        except Unreachable as error:
            self.journal.say(f"What failed backups left could not be removed: {error}", level=Level.WARNING)
        self._remove_older(site)

    def _why_all_is_kept(self) -> str:
        """Return why this backup may not be of the right data; empty where nothing says so."""
        run = self.run
        if RunFlag.SMALL in run.flags:
            return f"this one is smaller than is usual ({run.bytes_written} bytes)"
        changed = TopologyDifference.objects.filter(
            cluster_id=run.instance.cluster_id,
            subject=run.instance.name,
            code__in=REPLACED,
            gone_at=None,
            accepted_at=None,
        )
        return "another server, or other data, may be in the place of this one" if changed.exists() else ""

    def _remove_older(self, site: BackupContext) -> None:
        """Retention."""
        run, schedule, now = self.run, self.run.schedule, timezone.now()
        if schedule is None:
            return
        rows = {item.pk: item for item in backup_runs.kept_runs(schedule)}
        read = backup_runs.runs_being_read()  # first: a proof that ends from here on is seen as running or as its end
        restore_tested = {pk for pk, restore_test in restore_tests_of_runs(list(rows)).items() if restore_test.is_good}
        kept = [
            StoredBackup(
                item.pk, item.uid, item.started_at or now, item.path, is_restore_tested=item.pk in restore_tested
            )
            for item in rows.values()
            if item.instance_id == run.instance_id
        ]
        if stays := spared(kept, keep_count=schedule.keep_count, keep_days=schedule.keep_days, now=now):
            text = f"{stays.path} of backup run {stays.pk} stays until a newer backup of this schedule is proven."
            self.journal.say(text)
        for old, why in to_remove(kept, keep_count=schedule.keep_count, keep_days=schedule.keep_days, now=now):
            if old.pk in read:
                self.journal.say(f"{old.path} of backup run {old.pk} stays for now: a rebuild or a proof reads it.")
                continue
            try:
                end = remove(site, [old.path])[old.path]
            except DbopsError as error:
                self.journal.say(f"Older backups could not be removed: {error}", level=Level.WARNING)
                return
            if end is Removal.REMOVED:
                text = f"Its file {old.path} was removed by backup run {run.pk}: {why}."
                backup_runs.mark_removed(rows[old.pk], text)
                self.journal.say(f"Removed {old.path} of backup run {old.pk}: {why}.")
            elif end is Removal.ABSENT:
                text = f"{old.path} of backup run {old.pk} was not there, so it is not known to be gone: {why}, and it was to go."
                self.journal.say(text, level=Level.WARNING)
            else:
                self.journal.say(f"{old.path} of backup run {old.pk} could not be removed.", level=Level.WARNING)
