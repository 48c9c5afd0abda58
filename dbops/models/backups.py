"""Regular backups: when they are due, what really ran, and when nobody may touch a cluster."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from dbops.engine.states import BackupMethod, RunBy, RunOrigin, RunStatus

from .fleet import Cluster, Instance, name_validator, path_validator
from .leased import Leased


class BackupSchedule(models.Model):
    """When a backup of an instance is due, who runs it and what is kept.

    ``name`` is how a report says which schedule it belongs to. ``expected_seconds`` is what a person expects, and counts only
    until this schedule's own runs say better. ``next_due_at`` is the first due time that no run was written for.
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


class BackupRun(Leased):
    """One real run of a backup, whoever says so: one row, merged when several do.

    ``due_at`` is the due time of the schedule that it belongs to. ``report_key`` is the reporter's own name of the run: a
    report that is sent twice is one run. ``evidence`` is what was seen on the host. ``flags`` are codes: ``late``, ``too_long``,
    ``small``, ``large``. Written by ``dbops.lifecycle`` alone.
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

    class Meta:
        ordering: ClassVar = ["-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["schedule", "due_at"], name="one_run_for_each_due_time_of_a_schedule")
        ]
        # Availability asks what ran at the beginning of a period that lies a year back.
        indexes: ClassVar = [models.Index(fields=["instance", "started_at"], name="dbops_run_of_instance")]

    def __str__(self) -> str:
        return f"backup run {self.pk}"

    @property
    def why_not_testable(self) -> str:
        """Return why there is nothing that a proof could restore; empty where there is."""
        if self.method != BackupMethod.PHYSICAL:
            return "it is a logical dump: proofs are of physical backups"
        if self.origin != RunOrigin.MANAGED or self.status != RunStatus.SUCCEEDED or not self.path:
            return "dbops has no finished file of it"
        return "its file was removed" if self.removed_at else ""


class BackupEvent(models.Model):
    """One line of a backup run's history. Append only."""

    run = models.ForeignKey(BackupRun, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    level = models.CharField(max_length=10)
    text = models.TextField()

    class Meta:
        ordering: ClassVar = ["pk"]


class Maintenance(models.Model):
    """An interval in which no rebuild of a cluster may start. ``ends_at`` is empty while nobody knows.

    ``marked_at`` is when a person said of a time that had passed that it was planned: it kept nothing from starting.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="maintenances")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=300)
    created_by = models.CharField(max_length=150)
    marked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-starts_at"]


class AccessToken(models.Model):
    """A token for a machine: ``report`` lets a host tell of its backups, ``calendar`` lets a calendar read the windows.

    Only its SHA-256 is kept; ``prefix`` is shown so that people can tell tokens apart.
    """

    PURPOSES: ClassVar = [("report", "report"), ("calendar", "calendar")]

    name = models.CharField(max_length=63, unique=True, validators=[name_validator])
    purpose = models.CharField(max_length=10, choices=PURPOSES)
    prefix = models.CharField(max_length=8)
    digest = models.CharField(max_length=64, unique=True)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["name"]
