"""The topology: what discoveries found, and where the clusters differ from the inventory."""

from typing import ClassVar

from django.db import models

from .fleet import Cluster, Instance, account_validator, address_validator
from .secret import SecretTextField


class Discovery(models.Model):
    """One walk along replication, asked for by a person and made by a worker.

    ``cluster`` is whose stored account logs in; else ``user`` and ``password``, which is taken out of the row with the end.
    """

    class Statuses(models.TextChoices):
        QUEUED = "queued", "queued"
        RUNNING = "running", "running"
        DONE = "done", "done"
        FAILED = "failed", "failed"

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
    error = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar = ["-pk"]

    @property
    def is_over(self) -> bool:
        return self.status in (self.Statuses.DONE, self.Statuses.FAILED)


class TopologyDifference(models.Model):
    """One way in which a cluster is not what the inventory says. Written by ``dbops.lifecycle`` alone.

    It counts from ``confirmed_at`` on: then every server that it rests on was read once more and said the same. ``about`` is what it
    is about besides its subject: about another server it is another difference. ``open_key`` is unique while it is not gone, so that
    the database allows one row for each.
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
    """Which server an instance is, and on which files: what was read at first, or when a person or a rebuild said that it is right.

    ``files`` is ``DatadirFacts.files``, empty where nothing was read of them yet.
    """

    instance = models.OneToOneField(Instance, on_delete=models.CASCADE, related_name="identity", primary_key=True)
    identity = models.CharField(max_length=100)
    files = models.CharField(max_length=100, default="", blank=True)
    noted_at = models.DateTimeField()
