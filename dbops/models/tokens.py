"""Access tokens, and the answers that the API keeps for repeated requests."""

from datetime import datetime
from typing import ClassVar

from django.contrib.auth.models import User
from django.db import models

from .fleet import Cluster, name_validator


class AccessToken(models.Model):
    """A token for a machine: ``report`` lets a host report backups, ``calendar`` lets a calendar read backup windows,
    ``metrics`` lets a monitoring system read the state of the fleet, ``api`` lets a program act for ``user``.

    Only its SHA-256 is stored; pages show ``prefix`` to distinguish tokens. ``scope``, ``clusters`` and ``expires_at`` are of API
    tokens. ``clusters`` counts only without ``is_for_all_clusters``: a token whose last cluster is removed opens none.
    """

    PURPOSES: ClassVar = [(name, name) for name in ("report", "calendar", "metrics", "api")]
    SCOPES: ClassVar = [("read", "read"), ("operate", "operate")]

    name = models.CharField(max_length=63, unique=True, validators=[name_validator])
    purpose = models.CharField(max_length=10, choices=PURPOSES)
    prefix = models.CharField(max_length=8)
    digest = models.CharField(max_length=64, unique=True)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, blank=True, related_name="api_tokens")
    scope = models.CharField(max_length=10, choices=SCOPES, blank=True)
    is_for_all_clusters = models.BooleanField(default=True)
    clusters = models.ManyToManyField(Cluster, blank=True, related_name="+")
    expires_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    def is_valid_at(self, now: datetime) -> bool:
        """Whether the token opens anything: not revoked, not expired, and its account, if it has one, is active."""
        if self.revoked_at is not None or (self.expires_at is not None and self.expires_at <= now):
            return False
        return self.user is None or self.user.is_active


class KeptAnswer(models.Model):
    """The answer to a request of the API that changes something, kept under the token's idempotency key.

    ``status`` is empty while the request is being answered. ``digest`` is of the request.
    """

    token = models.ForeignKey(AccessToken, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    begun_at = models.DateTimeField(db_index=True)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(blank=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["token", "key"], name="one_answer_for_each_key")]

    def __str__(self) -> str:
        return f"answer to {self.key}"
