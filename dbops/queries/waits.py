"""Read requested readings of wait events."""

from dbops.engine.capacity.waits import WaitComparison
from dbops.engine.facts.instance import from_record
from dbops.models import Instance, WaitReading

SHOWN = 20


def readings_of(instance: Instance) -> list[WaitReading]:
    """Return the newest readings of an instance. One query."""
    return list(WaitReading.objects.filter(instance=instance).defer("before")[:SHOWN])


def comparison_of(row: WaitReading) -> WaitComparison | None:
    """Return what a reading found, ``None`` without a result."""
    return from_record(WaitComparison, row.result) if row.result else None
