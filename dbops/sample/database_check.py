"""Check that a process and its database agree on being the sample or real.

The marker is the first audit entry of the sample: the database refuses to change it, and its action name remains after
archiving. A real dashboard never writes it.
"""

import time
from collections.abc import Callable

from django.conf import settings

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.models import AuditName, Cluster

ACTION = "sample.generated"
FRESH_SECONDS = 5.0
OPERATION = phrase("Reading this database")


def is_sample() -> bool:
    """Whether ``manage.py sample`` has filled this database."""
    return AuditName.objects.filter(column="action", name=ACTION).exists()


def database_mismatch() -> Refused | None:
    """Return the refusal of this database (``sample.wrong_database``), ``None`` if process and database agree.

    A database without clusters agrees with both.
    """
    if is_sample() == settings.SAMPLE or (settings.SAMPLE and not Cluster.objects.exists()):
        return None
    if settings.SAMPLE:
        found = phrase(
            "DBOPS_SAMPLE is 1, and what this database holds was not generated: real machines would be shown as invented"
        )
        way_out = phrase("start it without DBOPS_SAMPLE")
    else:
        found = phrase(
            "the database contains the sample, but DBOPS_SAMPLE is not 1: generated history would appear as real"
        )
        way_out = phrase("set DBOPS_SAMPLE=1")
    return Refused(
        "sample.wrong_database",
        OPERATION,
        cause=found,
        next_step=phrase(
            "Correct DBOPS_DATABASE_URL or DBOPS_STATE_DIR, or {way_out}, for each process. Then start all processes again.",
            way_out=way_out,
        ),
    )


class SampleGuard:
    """Cached result for long-running processes, refreshed after a time because the database can be filled later."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.asked_at = float("-inf")
        self.found: Refused | None = None

    @property
    def is_fresh(self) -> bool:
        return self.clock() - self.asked_at < FRESH_SECONDS

    def database_mismatch(self) -> Refused | None:
        """Return the last result of ``database_mismatch``. Raises database errors."""
        if not self.is_fresh:
            asked_at = self.clock()
            self.found = database_mismatch()
            self.asked_at = asked_at
        return self.found


sample_guard = SampleGuard()
