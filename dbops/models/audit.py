"""The record of who did what. Rows are only ever added: the database refuses everything else (``audit.trigger_sql``)."""

from typing import ClassVar

from django.db import models

from dbops.engine.audit.chain import GENESIS, ChainEntry, ChainHead

#: Columns whose values are known by name, so that a part of a name finds entries without looking at each.
NAMED = ("actor", "action", "subject", "instance", "cluster", "outcome")


class AuditEntry(models.Model):
    """One act of a person (or of the product itself), chained to the one before it. Written by ``dbops.audit.log`` alone.

    ``hash`` covers every other column but ``id``; ``engine.audit.chain`` has the form. ``sequence`` has no gaps.
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
        """The entry as the chain knows it."""
        return ChainEntry(**{name: getattr(self, name) for name in ChainEntry.__dataclass_fields__})


class AuditHead(models.Model):
    """The end of the chain: one row. Who adds an entry locks it first, so that no two follow the same one."""

    sequence = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=GENESIS)

    @property
    def head(self) -> ChainHead:
        return ChainHead(self.sequence, self.hash)


class AuditText(models.Model):
    """The searchable text of an entry. A narrow table of its own keeps a full scan fast."""

    sequence = models.BigIntegerField(primary_key=True)
    text = models.TextField()


class AuditName(models.Model):
    """A value that a named column of the log has had. ``folded`` has it without upper and lower case."""

    column = models.CharField(max_length=10)
    name = models.CharField(max_length=200)
    folded = models.CharField(max_length=600)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["column", "name"], name="dbops_audit_name")]
