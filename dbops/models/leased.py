"""Base of rows that a worker drives under a lease."""

from django.db import models


class Leased(models.Model):
    """The columns of a lease. ``fence`` grows with each lease; hosts refuse older ones. Only ``dbops.lifecycle`` writes them."""

    run_token = models.CharField(max_length=32, blank=True)
    lease_owner = models.CharField(max_length=64, blank=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)
    heartbeat_at = models.DateTimeField(null=True)
    next_tick_at = models.DateTimeField(null=True, db_index=True)
    unreachable_since = models.DateTimeField(null=True)

    class Meta:
        abstract = True
