"""Gaps of days that are over, so that a year of many clusters is a sum in the database and not counted anew for each page."""

from typing import ClassVar

from django.db import models

from .fleet import Cluster


class CountedDays(models.Model):
    """Which days of a cluster are counted: from ``since`` up to, but not including, ``until``. Days are those of UTC.

    Before ``since`` nothing is stored of the cluster. ``rules`` is ``engine.availability.days.RULES`` of when it was counted.
    ``revision`` grows with each change, so that who counted or added up meanwhile sees that it holds no more.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="gap_count")
    since = models.DateField()
    until = models.DateField(db_index=True)
    rules = models.PositiveIntegerField()
    revision = models.BigIntegerField(default=0)


class GapDay(models.Model):
    """How long a cluster was short of one thing for one cause on one day. A day without a gap has no row.

    ``gap`` and ``cause`` are names of ``engine.availability``. ``worker.availability_rollup`` adds it, ``lifecycle.recount`` removes it.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    gap = models.CharField(max_length=20)
    cause = models.CharField(max_length=20)
    is_planned = models.BooleanField()
    microseconds = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "day", "gap", "cause", "is_planned"], name="one_sum_for_each_kind_of_gap_of_a_day"
            )
        ]
        # In the order in which days are added up, with all that it takes: the rows themselves are not read.
        indexes: ClassVar = [
            models.Index(
                fields=["cluster", "gap", "cause", "is_planned", "day", "microseconds"], name="dbops_gap_day_sums"
            )
        ]


class SentReport(models.Model):
    """The weekly report of the week that began on ``monday``: claimed before it is sent, so that it is sent once."""

    monday = models.DateField(unique=True)
    claimed_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
