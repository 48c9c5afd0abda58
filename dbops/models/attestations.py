"""Attestations of what the storage of an instance promises."""

from typing import ClassVar

from django.db import models

from dbops.engine.tuning.doublewrite import Attestation

from .fleet import Instance


class StorageAttestation(models.Model):
    """What an operator attests of the storage of an instance: it writes a page completely or not at all.

    ``kind`` is one of ``engine.tuning.doublewrite.KINDS``. It holds for ``storage`` alone (``engine.tuning.doublewrite.storage_of``),
    and up to the day before ``review_on``. A new one replaces it, a withdrawal removes it; the audit log keeps both.
    """

    instance = models.OneToOneField(Instance, on_delete=models.CASCADE, related_name="attestation", primary_key=True)
    kind = models.CharField(max_length=10)
    reference = models.CharField(max_length=500)
    storage = models.TextField()
    review_on = models.DateField(null=True)
    attested_by = models.CharField(max_length=150)
    attested_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["pk"]

    def attestation(self) -> Attestation:
        """Return it for the engine."""
        return Attestation(kind=self.kind, storage=self.storage, review_on=self.review_on)
