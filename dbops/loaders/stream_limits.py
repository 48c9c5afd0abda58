"""How slow the stream of a rebuild may be made, by what was last read of its source."""

from dbops.engine.rebuilds.plan import Plan
from dbops.engine.tuning.stream_rate import floor_of
from dbops.models import Instance
from dbops.worker.connections import member_of


def slowest_rate(plan: Plan, source_id: int) -> int:
    """Return the bytes a second below which a stream may not be held, by the newest facts of its source. One query."""
    source = Instance.objects.select_related("host", "cluster", "state").get(pk=source_id)
    facts = member_of(source).facts
    server = facts.server if facts else None
    return floor_of(
        bytes_to_copy=plan.bytes_to_copy,
        redo_capacity_bytes=server.redo_capacity_bytes if server else None,
        redo_bytes_per_second=server.redo_bytes_per_second if server else None,
        parallel=plan.parallel,
    )
