"""Parts of the audit log that were put away into files: what the rest of the log follows."""

from typing import ClassVar

from django.db import models

from dbops.engine.audit.chain import Head


class AuditSegment(models.Model):
    """Whole entries, ``first`` to ``last``, that a file has and the database no more. Rows are only ever added (migration 0018).

    ``previous`` and ``hash`` are the ends of the segment's own chain; ``file_hash`` is the SHA-256 of the file.
    """

    first = models.BigIntegerField(unique=True)
    last = models.BigIntegerField(unique=True)
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)
    file_name = models.CharField(max_length=200)
    file_hash = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["last"]

    def __str__(self) -> str:
        return f"audit entries {self.first} to {self.last}, in {self.file_name}"

    @property
    def anchor(self) -> Head:
        """What the first entry after it follows."""
        return Head(self.last, self.hash)
