"""Discoveries, topology differences and server identities."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fleet import Cluster, Instance, account_validator, address_validator
from .phrases import PhrasesField
from .secret import SecretTextField


class Discovery(models.Model):
    """A discovery along replication, requested by a person and run by a worker.

    It logs in with the stored account of ``cluster``, or with ``user`` and ``password``; the password is removed at the end.
    """

    class Statuses(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")

    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    address = models.CharField(max_length=253, validators=[address_validator])
    port = models.PositiveIntegerField(default=3306)
    cluster = models.ForeignKey(Cluster, on_delete=models.SET_NULL, null=True, related_name="+")
    user = models.CharField(max_length=80, blank=True, validators=[account_validator])
    password = SecretTextField(blank=True, default="")
    status = models.CharField(max_length=10, choices=Statuses.choices, db_index=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    result = models.JSONField(default=dict)
    error = PhrasesField(default=dict)

    class Meta:
        ordering: ClassVar = ["-pk"]

    @property
    def is_over(self) -> bool:
        return self.status in (self.Statuses.DONE, self.Statuses.FAILED)


class TopologyDifference(models.Model):
    """One difference between a cluster and the inventory. Only ``dbops.lifecycle`` writes rows.

    It counts from ``confirmed_at``, when a second probe of all involved servers found the same. ``about`` is the other server
    involved; another one makes another difference. ``open_key`` is unique while the difference exists, so that the database
    allows one row for each.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="differences")
    code = models.CharField(max_length=40)
    subject = models.CharField(max_length=63)
    about = models.CharField(max_length=500, blank=True)
    detail = models.TextField()
    matters = models.BooleanField()
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)
    accepted_at = models.DateTimeField(null=True)
    accepted_by = models.CharField(max_length=150, blank=True)
    accepted_as = models.CharField(max_length=10, blank=True, choices=[("roles", "roles"), ("intended", "intended")])
    reason = models.TextField(blank=True)
    open_key = models.CharField(max_length=64, unique=True, null=True)  # noqa: DJ001 - those that are gone have none

    class Meta:
        ordering: ClassVar = ["-matters", "first_seen_at", "pk"]

    def __str__(self) -> str:
        return f"{self.code} {self.subject}"

    @property
    def is_open(self) -> bool:
        return self.confirmed_at is not None and self.gone_at is None and self.accepted_at is None


class ServerIdentity(models.Model):
    """The confirmed server identity and data files of an instance, from the first probe, a person or a rebuild.

    ``files`` is ``DatadirFacts.files``, empty if not read yet.
    """

    instance = models.OneToOneField(Instance, on_delete=models.CASCADE, related_name="identity", primary_key=True)
    identity = models.CharField(max_length=100)
    files = models.CharField(max_length=100, default="", blank=True)
    noted_at = models.DateTimeField()
