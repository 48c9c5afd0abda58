"""Restore tests of backups."""

from typing import ClassVar

from django.db import models

from dbops.engine.states import RUN_FINAL, RunStatus

from .backups import BackupRun
from .fleet import Host, Instance
from .leased import Leased


class RestoreTest(Leased):
    """One attempt to restore a backup on a host and read every table. Its events are in the run's history.

    ``run_slot`` is the run of an unfinished test, ``host_slot`` the host of a running one; both are unique, so that the
    database allows one test per run and per host. ``steps`` has name, state, seconds and bytes of each step; ``result`` has rows
    by table and deviations. ``has_leftovers``: files can remain on the host. Only ``dbops.lifecycle`` writes rows.
    """

    run = models.ForeignKey(BackupRun, on_delete=models.PROTECT, related_name="restore_tests")
    source = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="restore_tests")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="restore_tests")
    status = models.CharField(max_length=10, choices=[(item.value, item.value) for item in RunStatus], db_index=True)
    requested_by = models.CharField(max_length=150, blank=True)
    requested_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, db_index=True)
    run_slot = models.BigIntegerField(unique=True, null=True)
    host_slot = models.BigIntegerField(unique=True, null=True)
    steps = models.JSONField(default=list)
    tables_checked = models.IntegerField(null=True)
    rows_counted = models.BigIntegerField(null=True)
    result = models.JSONField(default=dict)
    has_leftovers = models.BooleanField(default=False)

    class Meta:
        ordering: ClassVar = ["-pk"]
        indexes: ClassVar = [models.Index(fields=["source", "status", "finished_at"], name="dbops_restore_test_source")]

    def __str__(self) -> str:
        return f"restore test {self.pk} of backup run {self.run_id}"

    @property
    def is_over(self) -> bool:
        return self.status in RUN_FINAL
