"""Rebuilds with steps, events, commands and holds. Only ``dbops.lifecycle`` writes rows."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models.functions import Coalesce

from dbops.engine.access.approval_rules import MOST_LOGIN
from dbops.engine.access.tickets import MOST_TICKET
from dbops.engine.methods import method_named
from dbops.engine.planning.method import Method
from dbops.engine.states import FINAL, Approval, Level, Status, StepState

from .backups import BackupRun, BackupSchedule
from .fleet import Instance
from .leased import Leased
from .phrases import Phrased, PhraseField, PhrasesField

#: When a rebuild is due to start: the chosen time, else the time of the request. Sorts queues.
WANTS_TO_START = Coalesce("not_before", "requested_at")


class Rebuild(Phrased, Leased):
    """A rebuild job. The row is authoritative; a queue message carries only its id.

    ``target_slot``: the target of an unfinished rebuild, else NULL; unique, so the database allows one rebuild per target.
    ``not_before``, ``start_after_run``: the requested start, by time or after a backup run.
    ``requeue_schedule``: the schedule whose backup was stopped for this rebuild; it runs again at the end.
    ``stream_rate``: rate limit in bytes per second. ``leader``: the rebuild whose shared read provides the copy.
    ``pending_status``: final status after the clean-up of a failed or cancelled rebuild.
    ``approval`` and the following columns: the decision of other people, if the cluster requires one, by its rule at the request.
    ``requested_login``: logins of the machine from which ``manage.py`` requested it. ``ticket``: the number of its change ticket.
    ``follows``: the rebuild that this one resumes, rolls back or repeats. ``traced_at``: when a collector took its trace.
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
    finished_at = models.DateTimeField(null=True, db_index=True)
    expires_at = models.DateTimeField(null=True)
    plan = PhrasesField()
    plan_fingerprint = models.CharField(max_length=64)
    not_before = models.DateTimeField(null=True)
    start_after_run = models.ForeignKey(BackupRun, on_delete=models.SET_NULL, null=True, related_name="awaited_by")
    requeue_schedule = models.ForeignKey(BackupSchedule, on_delete=models.SET_NULL, null=True, related_name="+")

    stream_rate = models.BigIntegerField(null=True)

    sweep_due_at = models.DateTimeField(null=True, db_index=True)

    approval = models.CharField(
        max_length=10, blank=True, choices=[(item.value, item.value) for item in Approval], db_index=True
    )
    approval_by = models.CharField(max_length=800, blank=True)
    approval_at = models.DateTimeField(null=True)
    approval_reason = models.TextField(blank=True)
    approval_count = models.PositiveSmallIntegerField(default=1)
    approvers_only = models.BooleanField(default=False)
    requested_login = models.CharField(max_length=MOST_LOGIN, blank=True)
    ticket = models.CharField(max_length=MOST_TICKET, blank=True)

    pending_status = models.CharField(max_length=10, blank=True, choices=[(item.value, item.value) for item in Status])
    outcome = models.TextField(blank=True)
    outcome_phrase = PhraseField()

    traced_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["-requested_at", "-pk"]
        indexes: ClassVar = [
            # Covering index for the scheduler, which reads all queued rows every two seconds: without it, databases also read
            # the large plans (measured on SQLite with ten thousand rows: 45 ms, with the index 15 ms).
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


class RebuildApproval(models.Model):
    """One person's approval of a rebuild. ``login``: logins of the machine, if ``manage.py`` gave it."""

    rebuild = models.ForeignKey(Rebuild, on_delete=models.CASCADE, related_name="approvals")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    login = models.CharField(max_length=MOST_LOGIN, blank=True)
    reason = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [models.UniqueConstraint(fields=("rebuild", "user"), name="rebuild_approval_once")]

    def __str__(self) -> str:
        return f"{self.user} of rebuild {self.rebuild_id}"


class Hold(models.Model):
    """The exclusive claim of a rebuild or backup run on an instance. Inserting the row takes the lock."""

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
    progress = PhrasesField(default=dict)
    result = PhrasesField(default=dict)

    class Meta:
        ordering: ClassVar = ["rebuild_id", "position"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["rebuild", "name"], name="rebuild_step_name_unique")]


class RebuildEvent(Phrased):
    """One line of a rebuild's history; append-only."""

    rebuild = models.ForeignKey(Rebuild, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    step = models.CharField(max_length=40, blank=True)
    host = models.CharField(max_length=63, blank=True)
    level = models.CharField(max_length=10, choices=[(item.value, item.value) for item in Level])
    text = models.TextField()
    text_phrase = PhraseField()

    class Meta:
        ordering: ClassVar = ["pk"]


class ExecutedCommand(models.Model):
    """One command on a host or statement on a server: inserted before it runs, completed afterwards."""

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
    """A sample for a rebuild's charts: counts since the step started (``engine.rebuilds.metrics``).

    ``number`` is derived from the time since the start, so that two concurrent drivers write one row. Missing rows are
    harmless.
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
