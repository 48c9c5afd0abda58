"""When inventory sources are read, and what was read."""

from datetime import datetime, timedelta

from django.db.models import QuerySet

from dbops.database import clock
from dbops.engine.errors import DbopsError
from dbops.engine.facts.instance import to_record
from dbops.engine.inventory.listing import Listing
from dbops.models import InventorySource


def due(now: datetime) -> QuerySet[InventorySource]:
    """Return the sources to read now."""
    return InventorySource.objects.filter(next_read_at__lte=now)


def claim(source_id: int) -> InventorySource | None:
    """Take a due source: the next reading moves into the future, so a second message, or a dead worker's, changes nothing."""
    now = clock.now()
    source = due(now).filter(pk=source_id).first()
    if source is None:
        return None
    later = now + timedelta(minutes=source.every_minutes)
    mine = InventorySource.objects.filter(pk=source_id, next_read_at=source.next_read_at)
    return source if mine.update(next_read_at=later) else None


def keep(source: InventorySource, listing: Listing) -> None:
    """Store what was read. A removed source is not created again."""
    now = clock.now()
    mine = InventorySource.objects.filter(pk=source.pk)
    mine.update(read_at=now, listing=to_record(listing), failed_at=None, error={})


def mark_failed(source: InventorySource, error: DbopsError) -> None:
    """Record that a reading failed. The last listing stays."""
    InventorySource.objects.filter(pk=source.pk).update(failed_at=clock.now(), error=error.as_record())
