"""What readings of an instance share that a person requests and a worker takes."""

from typing import ClassVar

from django.db import models

from .fleet import Instance
from .phrases import PhrasesField

SUCCEEDED, FAILED, UNKNOWN = "succeeded", "failed", "unknown"
OVER = (SUCCEEDED, FAILED, UNKNOWN)


class RequestedReading(models.Model):
    """A reading of an instance. ``dbops.lifecycle.readings`` queues and ends it.

    ``slot`` is the instance's number and unique while the reading is unfinished, so that the database allows one at a time. ``claimed_at``:
    when a worker last took it up. ``unknown``: its worker was stopped.
    """

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="+")
    slot = models.BigIntegerField(unique=True, null=True)
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    status = models.CharField(max_length=10, db_index=True)
    claimed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    result = models.JSONField(default=dict)
    error = PhrasesField(default=dict)

    class Meta:
        abstract = True
        ordering: ClassVar = ["-pk"]

    @property
    def is_over(self) -> bool:
        return self.status in OVER
