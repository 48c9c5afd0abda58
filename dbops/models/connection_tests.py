"""Connection tests with their results."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fleet import Host, Instance
from .phrases import PhrasesField


class ConnectionTest(models.Model):
    """One test, requested by a person and run by a worker.

    ``ssh`` tests ``host``, ``mysql`` tests ``instance``, ``stream`` tests sending from ``source_host`` to ``host``. ``slot`` names
    the tested object and is unique while the test is unfinished, so that the database allows one at a time. ``uid`` is the
    test's name on the hosts. ``unknown``: the worker was stopped, so there is no result.
    """

    class Kinds(models.TextChoices):
        SSH = "ssh", "SSH"
        MYSQL = "mysql", "MySQL"
        STREAM = "stream", _("stream")

    class Statuses(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        PASSED = "passed", _("passed")
        FAILED = "failed", _("failed")
        UNKNOWN = "unknown", _("unknown")

    kind = models.CharField(max_length=10, choices=Kinds.choices)
    uid = models.CharField(max_length=32, unique=True)
    slot = models.CharField(max_length=100, unique=True, null=True)  # noqa: DJ001 - those that are over have none
    host = models.ForeignKey(Host, on_delete=models.CASCADE, null=True, related_name="tests")
    source_host = models.ForeignKey(Host, on_delete=models.CASCADE, null=True, related_name="+")
    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, null=True, related_name="tests")
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    status = models.CharField(max_length=10, choices=Statuses.choices, db_index=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    result = PhrasesField(default=dict)
    error = PhrasesField(default=dict)

    class Meta:
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return f"{self.kind} test of {self.subject}"

    @property
    def is_over(self) -> bool:
        return self.status not in (self.Statuses.QUEUED, self.Statuses.RUNNING)

    @property
    def subject(self) -> str:
        """The name of the tested object in the audit log and on pages."""
        if self.instance:
            return self.instance.name
        host = self.host.name if self.host else ""
        return f"{self.source_host.name} → {host}" if self.source_host else host
