"""A rebuild and what belongs to it: steps, events, commands, holds. Written by ``dbops.lifecycle`` alone."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models.functions import Coalesce

from dbops.engine.methods import method_named
from dbops.engine.planning.method import Method
from dbops.engine.states import FINAL, Approval, Level, Status, StepState

from .backups import BackupRun, BackupSchedule
from .fleet import Instance
from .leased import Leased

#: Since when a rebuild wants to start: the moment that a person chose, else when it was requested. It sorts lines.
WANTS_TO_START = Coalesce("not_before", "requested_at")


class Rebuild(Leased):
    """The job. The row is the truth: a queue message carries its id alone.

    ``target_slot`` is the target while the rebuild is not final, else NULL: unique, so the database allows one rebuild for
    each target. ``not_before`` and ``start_after_run`` are when a person wants it to start: not before a moment, or when that
    backup run has ended. ``requeue_schedule`` is the schedule whose backup was stopped for it: it is run again at the end.
    ``stream_rate`` is how fast a person lets the stream be, in bytes a second. ``leader`` is the rebuild from whose read of the source
    it gets its copy. ``pending_status`` is the status that the clean-up
    will give, once a step has failed or a person has cancelled. ``approval`` and what follows it say what a second person decided, where
    the cluster asks for one. ``follows`` is the rebuild whose copy a retry goes on with,
    or whose old data is put back, or that a person repeats.
    """

    request_key = models.CharField(max_length=64, unique=True)
    target = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="rebuilds")
    source = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="rebuilds_read")
    target_slot = models.OneToOneField(Instance, on_delete=models.PROTECT, null=True, related_name="active_rebuild")
    follows = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="followed_by")
    leader = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="followers")
    method = models.CharField(max_length=16)
    status = models.CharField(max_length=10, choices=[(item.value, item.value) for item in Status], db_index=True)
    priority = models.IntegerField(default=0)
    reason = models.TextField()
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="rebuilds")
    requested_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    plan = models.JSONField()
    plan_fingerprint = models.CharField(max_length=64)
    not_before = models.DateTimeField(null=True)
    start_after_run = models.ForeignKey(BackupRun, on_delete=models.SET_NULL, null=True, related_name="awaited_by")
    requeue_schedule = models.ForeignKey(BackupSchedule, on_delete=models.SET_NULL, null=True, related_name="+")

    stream_rate = models.BigIntegerField(null=True)

    sweep_due_at = models.DateTimeField(null=True, db_index=True)

    approval = models.CharField(
        max_length=10, blank=True, choices=[(item.value, item.value) for item in Approval], db_index=True
    )
    approval_by = models.CharField(max_length=150, blank=True)
    approval_at = models.DateTimeField(null=True)
    approval_reason = models.TextField(blank=True)

    pending_status = models.CharField(max_length=10, blank=True, choices=[(item.value, item.value) for item in Status])
    outcome = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["-requested_at", "-pk"]
        indexes: ClassVar = [
            # All that the scheduler reads of ten thousand queued rows, every two seconds: without it SQLite and the others walk
            # through each row's plan, which is large (measured on SQLite: 45 ms, with the index 15).
            models.Index(
                fields=(
                    *("status", "expires_at", "source", "target", "method", "priority", "requested_at", "not_before"),
                    *("leader", "waiting_for"),
                ),
                name="dbops_rebuild_scheduler",
            )
        ]

    def __str__(self) -> str:
        return f"rebuild {self.pk}"

    @property
    def traits(self) -> Method:
        """The attributes of its method."""
        return method_named(self.method)

    @property
    def is_final(self) -> bool:
        return self.status in FINAL


class Hold(models.Model):
    """The exclusive claim of one rebuild or one backup run on one instance. Inserting the row is taking the lock."""

    instance = models.OneToOneField(Instance, on_delete=models.PROTECT, related_name="hold")
    rebuild = models.ForeignKey(Rebuild, on_delete=models.CASCADE, null=True, related_name="holds")
    backup_run = models.ForeignKey(BackupRun, on_delete=models.CASCADE, null=True, related_name="holds")
    purpose = models.CharField(
        max_length=10, choices=[("source", "source"), ("target", "target"), ("backup", "backup")]
    )
    taken_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(rebuild=None, backup_run__isnull=False)
                | models.Q(rebuild__isnull=False, backup_run=None),
                name="hold_has_one_owner",
            )
        ]


class RebuildStep(models.Model):
    """One unit of work of a rebuild."""

    rebuild = models.ForeignKey(Rebuild, on_delete=models.CASCADE, related_name="steps")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=40)
    title = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=[(item.value, item.value) for item in StepState])
    predicted_seconds = models.FloatField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    progress = models.JSONField(default=dict)
    result = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar = ["rebuild_id", "position"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["rebuild", "name"], name="rebuild_step_name_unique")]


class RebuildEvent(models.Model):
    """One line of a rebuild's history. Append only."""

    rebuild = models.ForeignKey(Rebuild, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    step = models.CharField(max_length=40, blank=True)
    host = models.CharField(max_length=63, blank=True)
    level = models.CharField(max_length=10, choices=[(item.value, item.value) for item in Level])
    text = models.TextField()

    class Meta:
        ordering: ClassVar = ["pk"]


class ExecutedCommand(models.Model):
    """One command on a host or statement on a server: a row before it runs, completed after."""

    rebuild = models.ForeignKey(Rebuild, on_delete=models.CASCADE, related_name="commands")
    key = models.CharField(max_length=80)
    step = models.CharField(max_length=40, blank=True)
    place = models.CharField(max_length=80)
    text = models.TextField()
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    exit_status = models.IntegerField(null=True)
    output = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["rebuild", "key"], name="rebuild_command_key_unique")]


class RebuildSample(models.Model):
    """What one moment of a rebuild was like, for its charts: counts since the step's work began (``engine.rebuilds.metrics``).

    ``number`` follows from the time since the start, so two drivers at the same moment write one row. A row that is missing
    harms nothing.
    """

    rebuild = models.ForeignKey(Rebuild, on_delete=models.CASCADE, related_name="samples")
    number = models.PositiveIntegerField()
    at = models.DateTimeField()
    step = models.CharField(max_length=40)
    bytes = models.BigIntegerField(null=True)
    disk_read_bytes = models.BigIntegerField(null=True)
    disk_written_bytes = models.BigIntegerField(null=True)
    source_lag_seconds = models.FloatField(null=True)

    class Meta:
        ordering: ClassVar = ["rebuild_id", "number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["rebuild", "number"], name="rebuild_sample_number_unique")
        ]
