"""Systems that list servers, and differences from the inventory that people ignore."""

from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from dbops.engine.inventory.comparison import DifferenceCode, ListingDifference
from dbops.engine.inventory.readers import SourceKind

from .fleet import account_validator, name_validator
from .phrases import PhrasesField
from .secret import SecretTextField, check_word


class InventorySource(models.Model):
    """A system that lists servers. A worker reads it at ``next_read_at``, and changes nothing in the inventory.

    ``listing``: what was read at ``read_at``; empty before. ``error``: of the last reading, if it failed. Only ``dbops.lifecycle`` writes
    the columns of readings.
    """

    name = models.CharField(max_length=63, unique=True, validators=[name_validator])
    kind = models.CharField(max_length=20, choices=[(kind.value, kind.label) for kind in SourceKind])
    address = models.CharField(max_length=500)
    user = models.CharField(max_length=80, blank=True, validators=[account_validator])
    secret = SecretTextField(blank=True, check_text=check_word)
    ca = models.TextField(blank=True)
    every_minutes = models.PositiveIntegerField(
        default=60, validators=[MinValueValidator(1), MaxValueValidator(7 * 24 * 60)]
    )
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()

    next_read_at = models.DateTimeField(db_index=True)
    read_at = models.DateTimeField(null=True)
    listing = PhrasesField(default=dict)
    failed_at = models.DateTimeField(null=True)
    error = PhrasesField(default=dict)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class IgnoredDifference(models.Model):
    """A difference between a source and the inventory that is intended, with exactly these values."""

    source = models.ForeignKey(InventorySource, on_delete=models.CASCADE, related_name="ignored")
    code = models.CharField(max_length=20)
    server = models.CharField(max_length=63)
    listed = models.CharField(max_length=300, blank=True)
    known = models.CharField(max_length=300, blank=True)
    ignored_by = models.CharField(max_length=150)
    ignored_at = models.DateTimeField()
    reason = models.TextField()

    class Meta:
        ordering: ClassVar = ["server", "code"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["source", "code", "server"], name="one_ignored_difference_of_a_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.server}: {self.code}"

    @property
    def difference(self) -> ListingDifference:
        return ListingDifference(DifferenceCode(self.code), self.server, self.listed, self.known)
