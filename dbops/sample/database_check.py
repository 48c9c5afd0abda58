"""Whether history in this database is real or the sample's, and whether this process takes it for what it is.

The mark is the first entry of the sample's audit log: the database refuses to change it, and its action's name stays even where entries
are archived. A real dashboard never writes it.
"""

import time
from collections.abc import Callable

from django.conf import settings

from dbops.engine.errors import Refused
from dbops.models import AuditName, Cluster

ACTION = "sample.generated"
FRESH_SECONDS = 5.0
DOING = "Reading this database"


def is_sample() -> bool:
    """Tell whether ``manage.py sample`` has filled this database."""
    return AuditName.objects.filter(column="action", name=ACTION).exists()


def database_mismatch() -> Refused | None:
    """Return why this process must not work with its database (``sample.wrong_database``), ``None`` where the two agree.

    A database that has no cluster yet agrees with both: what it will hold is decided by who fills it.
    """
    if is_sample() == settings.SAMPLE or (settings.SAMPLE and not Cluster.objects.exists()):
        return None
    if settings.SAMPLE:
        found = "DBOPS_SAMPLE is 1, and what this database holds was not generated: real machines would be shown as invented"
        way_out = "start it without DBOPS_SAMPLE"
    else:
        found = "manage.py sample has filled this database, and DBOPS_SAMPLE is not 1: invented history would be shown as real"
        way_out = "set DBOPS_SAMPLE=1"
    return Refused(
        "sample.wrong_database",
        DOING,
        cause=found,
        next_step=f"Correct DBOPS_DATABASE_URL or DBOPS_STATE_DIR, or {way_out}, for each process. Then start all processes again.",
    )


class SampleGuard:
    """What a process that goes on for long knows of it, asked anew when it is old: the database may be filled meanwhile."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.asked_at = float("-inf")
        self.found: Refused | None = None

    @property
    def is_fresh(self) -> bool:
        return self.clock() - self.asked_at < FRESH_SECONDS

    def database_mismatch(self) -> Refused | None:
        """Return what ``database_mismatch`` found last. Raises what the database raises."""
        if not self.is_fresh:
            asked_at = self.clock()
            self.found = database_mismatch()
            self.asked_at = asked_at
        return self.found


sample_guard = SampleGuard()
