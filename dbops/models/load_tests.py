"""Load tests on scratch servers."""

from typing import ClassVar

from django.db import models

from dbops.engine.states import RUN_FINAL, RunStatus

from .backups import BackupRun
from .fleet import Cluster, Host, Instance
from .leased import Leased
from .phrases import Phrased, PhraseField


class LoadTest(Leased):
    """One load test: a scratch server on ``host``, restored from ``run`` or made empty, and rounds of load on it.

    ``request`` is what a person requested, ``plan`` what was shown and confirmed, with its ``fingerprint``; both are frozen. ``source`` is
    the instance whose settings and version the scratch server has. ``generator_host`` runs the load generator if that is another
    host. ``request_key`` is unique to the form, so that a second click
    makes no second test. ``host_slot``: the host of a running test, unique, so that one runs on a
    host. ``steps`` has name, state, seconds and bytes of each step; ``report`` is written at the end.
    ``has_leftovers``: files can remain on the host. Only ``dbops.lifecycle`` writes rows.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="load_tests")
    source = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="load_tests")
    run = models.ForeignKey(BackupRun, on_delete=models.PROTECT, related_name="load_tests", null=True)
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="load_tests")
    generator_host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="generated_load_tests", null=True)
    status = models.CharField(max_length=10, choices=[(item.value, item.value) for item in RunStatus], db_index=True)
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    request_key = models.CharField(max_length=64, unique=True)
    reason = models.CharField(max_length=500)
    finished_at = models.DateTimeField(null=True, db_index=True)
    host_slot = models.BigIntegerField(unique=True, null=True)
    request = models.JSONField(default=dict)
    plan = models.JSONField(default=dict)
    fingerprint = models.CharField(max_length=64)
    steps = models.JSONField(default=list)
    report = models.JSONField(default=dict)
    has_leftovers = models.BooleanField(default=False)

    class Meta:
        ordering: ClassVar = ["-pk"]
        indexes: ClassVar = [models.Index(fields=["cluster", "status"], name="dbops_load_test_cluster")]

    def __str__(self) -> str:
        return f"load test {self.pk} of {self.source_id}"

    @property
    def is_over(self) -> bool:
        return self.status in RUN_FINAL


class LoadTestRound(models.Model):
    """The result of one finished round (``engine.load_tests.round_result``)."""

    load_test = models.ForeignKey(LoadTest, on_delete=models.CASCADE, related_name="rounds")
    number = models.PositiveIntegerField()
    result = models.JSONField()

    class Meta:
        ordering: ClassVar = ["number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["load_test", "number"], name="dbops_load_test_round_once")
        ]


class LoadTestEvent(Phrased):
    """One line of a load test's history; append-only."""

    load_test = models.ForeignKey(LoadTest, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    level = models.CharField(max_length=10)
    text = models.TextField()
    text_phrase = PhraseField()

    class Meta:
        ordering: ClassVar = ["pk"]
