"""Archived segments of the audit log. The first entry in the database follows the last segment."""

from typing import ClassVar

from django.db import models

from dbops.engine.audit.chain import ChainHead


class AuditSegment(models.Model):
    """Entries ``first`` to ``last``, moved from the database to a file. Rows never change (``audit.trigger_sql``).

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
    def anchor(self) -> ChainHead:
        """The head that the next entry follows."""
        return ChainHead(self.last, self.hash)
