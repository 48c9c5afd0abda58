"""Personal settings of users, their sessions, and their failed attempts to log in."""

from typing import ClassVar

from django.contrib.auth.models import User
from django.db import models

from dbops.engine.access.roles import ON_CLUSTERS

from .fleet import Cluster


class DefaultView(models.Model):
    """A user's default filters of the fleet page, as a query string."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="default_view")
    query = models.CharField(max_length=1000)

    def __str__(self) -> str:
        return f"{self.user}: {self.query}"


class ChosenLanguage(models.Model):
    """The language in which a user reads the pages; without one, the browser's."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="chosen_language")
    code = models.CharField(max_length=10)

    def __str__(self) -> str:
        return f"{self.user}: {self.code}"


class ClusterRole(models.Model):
    """A role of an account on one cluster, in addition to its group."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="cluster_roles")
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="roles")
    role = models.CharField(max_length=10, choices=[(role.value, role.value) for role in ON_CLUSTERS])

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=("user", "cluster", "role"), name="cluster_role_once")]

    def __str__(self) -> str:
        return f"{self.user}: {self.role} of {self.cluster}"


class GivenPassword(models.Model):
    """A password that another person set and therefore knows: the account must change it at its next login."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="given_password")

    def __str__(self) -> str:
        return str(self.user)


class LoginSession(models.Model):
    """Where and when a person logged in: what a browser session itself does not tell. It ends with that session."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="login_sessions")
    session_key = models.CharField(max_length=40, db_index=True)
    address = models.CharField(max_length=45, blank=True)
    browser = models.CharField(max_length=300, blank=True)
    method = models.CharField(max_length=40)
    started_at = models.DateTimeField(db_index=True)
    last_used_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.user} since {self.started_at}"


class FailedAttempts(models.Model):
    """How often something failed since a time: wrong passwords of an account at an address, wrong tokens of an address."""

    #: digests of names and addresses: a name can be a password in the wrong field
    key = models.CharField(max_length=64, primary_key=True)
    account = models.CharField(max_length=64, blank=True, db_index=True)
    count = models.PositiveIntegerField()
    since = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.count} since {self.since}"
