"""Readings of an instance's top statements that people requested."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fleet import Instance
from .phrases import PhrasesField


class DigestReading(models.Model):
    """One reading of the most frequent statements of a schema, without their values.

    ``slot`` is the instance's number and unique while the reading is unfinished, so that the database allows one at a time. ``claimed_at``:
    when a worker took it up. ``result`` is a record of ``engine.load_tests.digest_facts.SourceDigests`` and never changes.
    ``unknown``: its worker was stopped.
    """

    class Statuses(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        UNKNOWN = "unknown", _("unknown")

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="digest_readings")
    schema = models.CharField(max_length=64)
    slot = models.BigIntegerField(unique=True, null=True)
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    status = models.CharField(max_length=10, choices=Statuses.choices, db_index=True)
    claimed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    result = models.JSONField(default=dict)
    error = PhrasesField(default=dict)

    class Meta:
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return f"top statements of {self.instance.name}"

    @property
    def is_over(self) -> bool:
        return self.status in OVER


OVER = (DigestReading.Statuses.SUCCEEDED, DigestReading.Statuses.FAILED, DigestReading.Statuses.UNKNOWN)
