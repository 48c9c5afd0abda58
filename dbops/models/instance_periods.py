"""Observed states of instances over time, the basis of availability."""

from typing import ClassVar

from django.db import models

from .fleet import Cluster, Instance


class InstancePeriod(models.Model):
    """An interval in which every probe of an instance found the same state. Only ``dbops.lifecycle`` writes rows.

    ``ended_at`` is ``None`` for the current period, which is known up to the last probe. There were no probes between two
    periods of an instance. ``name`` remains if the instance is removed from the inventory.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="periods")
    instance = models.ForeignKey(Instance, on_delete=models.SET_NULL, null=True, related_name="periods")
    name = models.CharField(max_length=63)
    role = models.CharField(max_length=10)
    state = models.CharField(max_length=20)
    because = models.CharField(max_length=300, blank=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["started_at", "pk"]
        indexes: ClassVar = [models.Index(fields=["cluster", "started_at"], name="dbops_period_of_cluster")]
