"""Rows of comparisons that continue after a rebuild."""

from typing import Any

from django.utils import timezone

from dbops.engine.rebuilds.certificate.record import RECORD, REST
from dbops.engine.states import RunStatus, Status
from dbops.lifecycle import rebuild_driver
from dbops.models import Rebuild, RowComparison
from tests.app import rows

LEFT: dict[str, Any] = {
    "small": None,
    "sized": [["shop", "orders"]],
    "whole": [["shop", "orders"]],
    "again": [],
    "server": ["13", "db-13", "3306", "/var/lib/mysql/"],
}
RESULT: dict[str, Any] = {
    "compared_with": "backup-1",
    "rows": {"tables": 3, "count": 700, "ranges": 2, "from": "0-1-5", "until": "0-1-9"},
    "total": {"tables": 8, "rows": 900},
    "left_out": {},
    "differences": [{"table": "shop.orders", "rows": "id after 20000 up to 40000"}],
    "differing": 1,
}


def succeed(rebuild: Rebuild, *, left: bool = True) -> RowComparison | None:
    """End a running rebuild in success. ``left``: its certificate left rows to compare."""
    if left:
        Rebuild.objects.filter(pk=rebuild.pk).update(checkpoint={REST: LEFT})
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease is not None
    rebuild_driver.finish(lease, Status.SUCCEEDED, "It serves.")
    return RowComparison.objects.filter(rebuild=rebuild).first()


def queued_comparison() -> RowComparison:
    """Return the queued comparison of a rebuild of replica-1 from backup-1."""
    found = succeed(rows.started_rebuild())
    assert found is not None
    return found


def made_comparison(rebuild: Rebuild, status: RunStatus, **values: Any) -> RowComparison:
    """Return a comparison of any rebuild, with a record."""
    now = timezone.now()
    given: dict[str, Any] = {
        "uid": f"{RowComparison.objects.count():016x}",
        "target": rebuild.target,
        "queued_at": now,
        "started_at": None if status is RunStatus.QUEUED else now,
        "checkpoint": {REST: LEFT, RECORD: RESULT},
    }
    return RowComparison.objects.create(rebuild=rebuild, status=status, **(given | values))
