"""Comparisons of all rows that continue after their rebuild."""

from typing import Any, ClassVar

from django.db import models

from dbops.engine.states import RUN_FINAL, RunStatus

from .fleet import Instance
from .leased import Leased
from .rebuilds import Rebuild


class RowComparison(Leased):
    """The rest of a full certificate: it compares the rows that the rebuild had no time for. Its events are the rebuild's.

    ``cluster_slot``: the cluster of a running comparison, else NULL; unique, so that one runs in each cluster. ``is_pausing``: the target's
    replication can be stopped for a moment; ``paused_at``: when it was last. ``differing``: ranges and tables that differ.
    ``is_current``: the target still has the data of this rebuild. Only ``dbops.lifecycle`` writes rows.
    """

    rebuild = models.OneToOneField(Rebuild, on_delete=models.PROTECT, related_name="row_comparison")
    target = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="row_comparisons")
    status = models.CharField(max_length=10, choices=[(item.value, item.value) for item in RunStatus], db_index=True)
    queued_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    cluster_slot = models.BigIntegerField(unique=True, null=True)
    is_pausing = models.BooleanField(default=False)
    paused_at = models.DateTimeField(null=True)
    differing = models.IntegerField(default=0)
    is_current = models.BooleanField(default=True)

    class Meta:
        ordering: ClassVar = ["-pk"]
        indexes: ClassVar = [models.Index(fields=["is_current", "differing"], name="dbops_row_comparison_problem")]

    def __str__(self) -> str:
        return f"row comparison of rebuild {self.rebuild_id}"

    @property
    def is_over(self) -> bool:
        return self.status in RUN_FINAL

    @property
    def record(self) -> dict[str, Any]:
        """What was compared so far; empty before the first round."""
        found: dict[str, Any] = self.checkpoint.get("comparison", {})
        return found
