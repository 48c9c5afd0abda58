"""Hourly readings of what instances hold and use, what clusters may reach, and the forecast made from both."""

from typing import ClassVar

from django.db import models

from .fleet import Cluster, Instance


class CapacityReading(models.Model):
    """A reading of an instance at ``at``; the columns are those of ``engine.facts.growth``. ``None``: unknown.

    ``is_daily``: the last reading of a UTC day, whose rates are averages of the day; the other readings of the day are gone. Rates
    are per second since the reading before, also across a restart of the server. ``data_dir_bytes`` are all files of the data
    directory, ``kept_bytes`` those of earlier data directories that dbops keeps beside it, ``disk_bytes`` the size of their file
    system. ``backup_bytes`` are those that a rebuild copies.
    """

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="capacity", db_index=False)
    at = models.DateTimeField()
    is_daily = models.BooleanField(default=False)

    schemas = models.BigIntegerField(null=True)
    tables = models.BigIntegerField(null=True)
    partitions = models.BigIntegerField(null=True)
    data_bytes = models.BigIntegerField(null=True)
    index_bytes = models.BigIntegerField(null=True)
    file_bytes = models.BigIntegerField(null=True)
    backup_bytes = models.BigIntegerField(null=True)
    largest = models.JSONField(null=True)
    auto_increment = models.JSONField(null=True)
    open_tables = models.BigIntegerField(null=True)
    open_definitions = models.BigIntegerField(null=True)
    open_files = models.BigIntegerField(null=True)
    table_open_cache = models.BigIntegerField(null=True)
    table_open_cache_instances = models.BigIntegerField(null=True)
    table_definition_cache = models.BigIntegerField(null=True)
    innodb_open_files = models.BigIntegerField(null=True)
    open_files_limit = models.BigIntegerField(null=True)
    connections = models.BigIntegerField(null=True)
    connections_peak = models.BigIntegerField(null=True)
    max_connections = models.BigIntegerField(null=True)
    binlog_bytes = models.BigIntegerField(null=True)
    binlog_expire_seconds = models.BigIntegerField(null=True)
    redo_capacity_bytes = models.BigIntegerField(null=True)
    disk_bytes = models.BigIntegerField(null=True)
    disk_free_bytes = models.BigIntegerField(null=True)
    data_dir_bytes = models.BigIntegerField(null=True)
    kept_bytes = models.BigIntegerField(null=True)

    uptime_seconds = models.BigIntegerField(null=True)
    questions = models.BigIntegerField(null=True)
    writes = models.BigIntegerField(null=True)
    redo_bytes = models.BigIntegerField(null=True)
    cache_misses = models.BigIntegerField(null=True)
    questions_per_second = models.FloatField(null=True)
    writes_per_second = models.FloatField(null=True)
    redo_bytes_per_second = models.FloatField(null=True)
    cache_misses_per_second = models.FloatField(null=True)

    class Meta:
        ordering: ClassVar = ["at", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["instance", "at"], name="one_capacity_reading_of_an_instance_at_a_time")
        ]
        indexes: ClassVar = [models.Index(fields=["is_daily", "at"], name="dbops_capacity_to_thin")]


class CapacityThreshold(models.Model):
    """A limit that people set for a cluster: ``kind`` is a ``LimitKind``, ``value`` in the unit of its limits."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="capacity_thresholds", db_index=False)
    kind = models.CharField(max_length=20)
    value = models.BigIntegerField()

    class Meta:
        ordering: ClassVar = ["kind"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "kind"], name="one_capacity_threshold_of_a_kind")
        ]


class CapacityForecast(models.Model):
    """The ranked limits of a cluster, as ``worker.capacity_forecast`` last computed them: pages read this row alone.

    ``limits`` are records of ``engine.capacity.limits.CapacityLimit``. ``due_at``: when they are computed again; a changed threshold or
    goal moves it to now. ``soonest`` is the limit that pages flag when ``first_at`` is near; ``None``: none.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="capacity_forecast")
    computed_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(db_index=True)
    limits = models.JSONField(default=list)
    soonest = models.JSONField(null=True)
    first_at = models.DateTimeField(null=True)
