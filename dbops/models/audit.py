"""The audit log. Triggers make it append-only (``audit.trigger_sql``)."""

from typing import ClassVar

from django.db import models

from dbops.engine.audit.chain import GENESIS, ChainEntry, ChainHead

#: Columns with a table of their values, so that a search by part of a name does not scan all entries.
NAMED = ("actor", "action", "subject", "instance", "cluster", "outcome")


class AuditEntry(models.Model):
    """One action of a person or of dbops, chained to the previous entry. Only ``dbops.audit.log`` writes entries.

    ``hash`` covers all other columns except ``id`` (see ``engine.audit.chain``). ``sequence`` has no gaps.
    """

    sequence = models.BigIntegerField(unique=True)
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)
    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=60)
    subject = models.CharField(max_length=200)
    instance = models.CharField(max_length=200, blank=True)
    cluster = models.CharField(max_length=200, blank=True)
    outcome = models.CharField(max_length=20, blank=True)
    reason = models.TextField(blank=True)
    address = models.CharField(max_length=64, blank=True)
    request = models.CharField(max_length=64, blank=True)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar = ["-sequence"]
        indexes: ClassVar = [
            models.Index(fields=[name, "sequence"], name=f"dbops_audit_{name}")
            for name in ("actor", "action", "subject", "instance", "cluster", "outcome")
        ]

    def __str__(self) -> str:
        return f"audit entry {self.sequence}"

    @property
    def link(self) -> ChainEntry:
        """Convert the entry for the chain."""
        return ChainEntry(**{name: getattr(self, name) for name in ChainEntry.__dataclass_fields__})


class AuditHead(models.Model):
    """The end of the chain, one row. Writers lock it first, so that no two entries have the same predecessor."""

    sequence = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=GENESIS)

    @property
    def head(self) -> ChainHead:
        return ChainHead(self.sequence, self.hash)


class AuditText(models.Model):
    """The searchable text of an entry, in a narrow table so that a full scan is fast."""

    sequence = models.BigIntegerField(primary_key=True)
    text = models.TextField()


class AuditName(models.Model):
    """A value that occurs in a column of the log. ``folded`` is the case-folded value."""

    column = models.CharField(max_length=10)
    name = models.CharField(max_length=200)
    folded = models.CharField(max_length=600)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["column", "name"], name="dbops_audit_name")]
