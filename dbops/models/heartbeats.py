"""Signs of life of the processes that no page talks to."""

from django.db import models


class ProcessHeartbeat(models.Model):
    """When a kind of process, ``worker`` or ``beat``, last did something: one row each, however many there are."""

    name = models.CharField(max_length=20, primary_key=True)
    at = models.DateTimeField()
