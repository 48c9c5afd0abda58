"""Readings of an instance's top statements that people requested."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from .readings import RequestedReading


class DigestReading(RequestedReading):
    """One reading of the most frequent statements of a schema, without their values.

    ``result`` is a record of ``engine.load_tests.digest_facts.SourceDigests`` and never changes.
    """

    class Statuses(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        UNKNOWN = "unknown", _("unknown")

    schema = models.CharField(max_length=64)
    status = models.CharField(max_length=10, choices=Statuses.choices, db_index=True)

    def __str__(self) -> str:
        return f"top statements of {self.instance.name}"
