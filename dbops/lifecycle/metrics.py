"""Write the samples of a rebuild, separate from its history and without delaying it."""

from datetime import datetime

from django.db import transaction

from dbops.engine.rebuilds.metrics import Figures
from dbops.models import Rebuild, RebuildSample


def write_sample(rebuild: Rebuild, *, number: int, at: datetime, step: str, figures: Figures) -> None:
    """Write one sample; an existing sample of the same number stays.

    The lease is not checked: a driver that lost its lease read the same host a moment ago, so an early sample does no harm.
    """
    with transaction.atomic():
        row = RebuildSample(
            rebuild_id=rebuild.pk,
            number=number,
            at=at,
            step=step,
            bytes=figures.bytes,
            disk_read_bytes=figures.disk_read_bytes,
            disk_written_bytes=figures.disk_written_bytes,
            source_lag_seconds=figures.source_lag_seconds,
        )
        RebuildSample.objects.bulk_create([row], ignore_conflicts=True)
