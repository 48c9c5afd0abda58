"""Note which rebuilds the collector of traces has."""

from collections.abc import Iterable
from datetime import datetime

from dbops.models import Rebuild


def mark_traced(rebuild_ids: Iterable[int], at: datetime) -> None:
    """Note that the traces of these rebuilds were taken."""
    Rebuild.objects.filter(pk__in=rebuild_ids).update(traced_at=at)
