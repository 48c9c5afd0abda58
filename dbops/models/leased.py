"""What rebuilds, backup runs and restore tests share: each is driven by one worker at a time."""

from django.db import models

from .phrases import PhrasesField

#: Fences of one run between its start and a start a second later.
TOKENS_PER_SECOND = 1_000_000


class Leased(models.Model):
    """A job with a lease and a history. ``dbops.lifecycle`` alone writes it.

    ``fence`` grows with each lease: the hosts refuse a smaller one. ``checkpoint`` is plain data that survives its driver.
    """

    uid = models.CharField(max_length=32, unique=True)
    started_at = models.DateTimeField(null=True)
    waiting_for = models.CharField(max_length=500, blank=True)
    checkpoint = PhrasesField(default=dict)
    error = PhrasesField(default=dict)
    cancel_requested_at = models.DateTimeField(null=True)
    cancel_requested_by = models.CharField(max_length=150, blank=True)
    revision = models.BigIntegerField(default=0)

    run_token = models.CharField(max_length=32, blank=True)
    lease_owner = models.CharField(max_length=64, blank=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)
    heartbeat_at = models.DateTimeField(null=True)
    next_tick_at = models.DateTimeField(null=True, db_index=True)
    unreachable_since = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    @property
    def host_token(self) -> int:
        """The fencing token shown to hosts: it grows with each lease, and from one start to the next."""
        started = int(self.started_at.timestamp()) if self.started_at else 0
        return started * TOKENS_PER_SECOND + self.fence
