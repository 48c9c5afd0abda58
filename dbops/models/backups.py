"""Backup schedules, backup runs and maintenance."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from dbops.engine.states import BackupMethod, RunBy, RunOrigin, RunStatus

from .fleet import Cluster, Instance, name_validator, path_validator
from .leased import Leased
from .phrases import Phrased, PhraseField


class BackupSchedule(models.Model):
    """The plan for an instance's backups: due times, runner and retention.

    Reports refer to a schedule by ``name``. ``expected_seconds`` is a person's estimate, used until the schedule has its own
    runs. ``next_due_at`` is the first due time without a run.
    """

    name = models.CharField(max_length=63, unique=True, validators=[name_validator])
    instance = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="backup_schedules")
    method = models.CharField(max_length=10, choices=[(item.value, item.value) for item in BackupMethod])
    run_by = models.CharField(max_length=10, choices=[(item.value, item.value) for item in RunBy])
    cron = models.CharField(max_length=120)
    time_zone = models.CharField(max_length=64, default="UTC")
    directory = models.CharField(max_length=500, blank=True, validators=[path_validator])
    keep_count = models.PositiveIntegerField(null=True, blank=True, default=7)
    keep_days = models.PositiveIntegerField(null=True, blank=True)
    expected_seconds = models.PositiveIntegerField(null=True, blank=True)
    late_after_seconds = models.PositiveIntegerField(default=900)
    is_enabled = models.BooleanField(default=True)
    next_due_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        ordering: ClassVar = ["instance__name", "name"]

    def __str__(self) -> str:
        return self.name


class BackupRun(Phrased, Leased):
    """One run of a backup; several reports of the same run are merged into one row.

    ``due_at`` is the schedule's due time. ``report_key`` is the reporter's name of the run, so that a repeated report is one
    run. ``evidence`` is the observation on the host. ``flags`` are codes: ``late``, ``too_long``, ``small``, ``large``. Only
    ``dbops.lifecycle`` writes rows.
    """

    instance = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="backup_runs")
    schedule = models.ForeignKey(BackupSchedule, on_delete=models.SET_NULL, null=True, related_name="runs")
    origin = models.CharField(max_length=10, choices=[(item.value, item.value) for item in RunOrigin])
    method = models.CharField(max_length=10, choices=[(item.value, item.value) for item in BackupMethod])
    status = models.CharField(max_length=10, choices=[(item.value, item.value) for item in RunStatus], db_index=True)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    due_at = models.DateTimeField(null=True)
    queued_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True, db_index=True)
    last_seen_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, db_index=True)
    path = models.CharField(max_length=1000, blank=True)
    bytes_written = models.BigIntegerField(null=True)
    exit_status = models.IntegerField(null=True)
    flags = models.JSONField(default=list)
    report_key = models.CharField(max_length=64, unique=True, null=True)  # noqa: DJ001 - many runs have none
    evidence = models.JSONField(default=dict)
    progress = models.JSONField(default=dict)
    removed_at = models.DateTimeField(null=True)
    outcome = models.TextField(blank=True)
    outcome_phrase = PhraseField()

    class Meta:
        ordering: ClassVar = ["-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["schedule", "due_at"], name="one_run_for_each_due_time_of_a_schedule")
        ]
        # Availability reads runs at the start of a period a year ago.
        indexes: ClassVar = [models.Index(fields=["instance", "started_at"], name="dbops_run_of_instance")]

    def __str__(self) -> str:
        return f"backup run {self.pk}"

    @property
    def why_not_testable(self) -> str:
        """Return why the backup cannot be restore-tested; empty if it can."""
        if self.method != BackupMethod.PHYSICAL:
            return "it is a logical dump; restore tests need a physical backup"
        if self.origin != RunOrigin.MANAGED or self.status != RunStatus.SUCCEEDED or not self.path:
            return "there is no finished file"
        return "the file was removed" if self.removed_at else ""


class BackupEvent(Phrased):
    """One line of a backup run's history; append-only."""

    run = models.ForeignKey(BackupRun, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    level = models.CharField(max_length=10)
    text = models.TextField()
    text_phrase = PhraseField()

    class Meta:
        ordering: ClassVar = ["pk"]


class Maintenance(models.Model):
    """An interval in which no rebuild of a cluster can start. ``ends_at`` is empty while unknown.

    ``marked_at`` is when a person marked a past interval as planned; such an interval blocked no rebuilds.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="maintenances")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=300)
    created_by = models.CharField(max_length=150)
    marked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-starts_at"]
