"""The record of who did what."""

from typing import ClassVar

from django.db import models


class AuditEntry(models.Model):
    """One act of a person (or of the product itself). Append only."""

    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=60)
    subject = models.CharField(max_length=200)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar = ["-pk"]
