"""Readings of wait events that people requested."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from .readings import RequestedReading


class WaitReading(RequestedReading):
    """Two readings of an instance's wait events, ``seconds`` apart, and what they differ by.

    ``before``: the first reading, until the second one is taken at ``due_at``. ``result`` is a record of
    ``engine.capacity.waits.WaitComparison``.
    """

    class Statuses(models.TextChoices):
        QUEUED = "queued", _("queued")
        FIRST = "first", _("first reading")
        WAITING = "waiting", _("waiting")
        SECOND = "second", _("second reading")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        UNKNOWN = "unknown", _("unknown")

    seconds = models.PositiveSmallIntegerField()
    status = models.CharField(max_length=10, choices=Statuses.choices, db_index=True)
    due_at = models.DateTimeField(null=True)
    before = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"waits of {self.instance.name}"
