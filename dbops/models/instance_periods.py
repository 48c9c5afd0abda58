"""What was seen of each instance over time: the facts that availability is counted from."""

from typing import ClassVar

from django.db import models

from .fleet import Cluster, Instance


class InstancePeriod(models.Model):
    """A time in which every probe of an instance saw one state. Written by ``dbops.lifecycle`` alone.

    ``ended_at`` is ``None`` while it goes on: then it is known up to the instance's last probe. Between two periods of an instance nobody
    looked. ``name`` outlives the instance, which may be taken out of the inventory.
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
