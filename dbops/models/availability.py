"""Gaps of past days, so that a page sums up rows instead of recalculating a year."""

from typing import ClassVar

from django.db import models

from .fleet import Cluster


class CountedDays(models.Model):
    """The counted days of a cluster in UTC, from ``since`` up to, but not including, ``until``.

    Before ``since`` there are no records of the cluster. ``rules`` is ``engine.availability.days.RULES`` at the time of
    counting. ``revision`` grows with each change, so that concurrent readers detect outdated results.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="gap_count")
    since = models.DateField()
    until = models.DateField(db_index=True)
    rules = models.PositiveIntegerField()
    revision = models.BigIntegerField(default=0)


class GapDay(models.Model):
    """Seconds of one gap with one cause of a cluster on one day. A day without a gap has no row.

    ``gap`` and ``cause`` are names of ``engine.availability``. ``worker.availability_rollup`` adds rows,
    ``lifecycle.recount`` removes them.
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
        # Covering index for summing up days: the rows themselves are not read.
        indexes: ClassVar = [
            models.Index(
                fields=["cluster", "gap", "cause", "is_planned", "day", "microseconds"], name="dbops_gap_day_sums"
            )
        ]
