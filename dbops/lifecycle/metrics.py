"""The samples of a rebuild: beside its history, and never in its way."""

from datetime import datetime

from django.db import transaction

from dbops.engine.rebuilds.metrics import Figures
from dbops.models import Rebuild, RebuildSample


def write_sample(rebuild: Rebuild, *, number: int, at: datetime, step: str, figures: Figures) -> None:
    """Write one sample; one of the same number stays as it is.

    No lease is proven: a driver that lost its own saw the same host a moment ago, and the worst that it does is to be first.
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
