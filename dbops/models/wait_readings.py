"""Readings of wait events that people requested."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fleet import Instance
from .phrases import PhrasesField


class WaitReading(models.Model):
    """Two readings of an instance's wait events, ``seconds`` apart, and what they differ by.

    ``slot`` is the instance's number and unique while the reading is unfinished, so that the database allows one at a time. ``before``: the
    first reading, until the second one is taken at ``due_at``. ``claimed_at``: when a worker last took it up. ``result`` is a record of
    ``engine.capacity.waits.WaitComparison``. ``unknown``: its worker was stopped.
    """

    class Statuses(models.TextChoices):
        QUEUED = "queued", _("queued")
        FIRST = "first", _("first reading")
        WAITING = "waiting", _("waiting")
        SECOND = "second", _("second reading")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        UNKNOWN = "unknown", _("unknown")

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="wait_readings")
    slot = models.BigIntegerField(unique=True, null=True)
    seconds = models.PositiveSmallIntegerField()
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    status = models.CharField(max_length=10, choices=Statuses.choices, db_index=True)
    claimed_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    before = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    error = PhrasesField(default=dict)

    class Meta:
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return f"waits of {self.instance.name}"

    @property
    def is_over(self) -> bool:
        return self.status in OVER


OVER = (WaitReading.Statuses.SUCCEEDED, WaitReading.Statuses.FAILED, WaitReading.Statuses.UNKNOWN)
