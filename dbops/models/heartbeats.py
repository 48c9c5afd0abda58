"""Heartbeats of workers and beat."""

from django.db import models


class ProcessHeartbeat(models.Model):
    """The last activity of a kind of process, ``worker`` or ``beat``; one row per kind."""

    name = models.CharField(max_length=20, primary_key=True)
    at = models.DateTimeField()
    #: Messages in the queue that dbops had not sent; workers only.
    dropped_messages = models.PositiveBigIntegerField(default=0)
