"""Receivers of the audit log outside of dbops, for example a SIEM."""

from typing import ClassVar

from django.db import models

from .phrases import PhrasesField
from .secret import SecretTextField, check_word


class AuditSink(models.Model):
    """A receiver of audit entries, and how far it has them. The log itself is the buffer.

    ``sent_sequence`` is the last entry that the receiver has; ``dropped`` counts entries that left the log before they were sent.
    ``tested_sequence`` is the entry of the last test. ``failures`` counts failed deliveries in a row, ``error`` has the last one.
    Only ``dbops.lifecycle`` writes the columns of deliveries.
    """

    name = models.CharField(max_length=60, unique=True)
    address = models.CharField(max_length=500)
    ca = models.TextField(blank=True)
    token = SecretTextField(blank=True, check_text=check_word)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()

    sent_sequence = models.BigIntegerField()
    sent_at = models.DateTimeField(null=True)
    dropped = models.BigIntegerField(default=0)
    tested_sequence = models.BigIntegerField(null=True)

    failures = models.PositiveIntegerField(default=0)
    error = PhrasesField(default=dict)
    failed_at = models.DateTimeField(null=True)
    next_try_at = models.DateTimeField()
    lease_owner = models.CharField(max_length=32, blank=True)
    lease_until = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name
