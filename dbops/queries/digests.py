"""Read requested readings of top statements."""

from dbops.engine.facts.instance import from_record
from dbops.engine.load_tests.digest_facts import SourceDigests
from dbops.models import DigestReading

SHOWN = 20


def find_digest_reading(reading_id: int | str, *, cluster_id: int) -> DigestReading | None:
    """Return a reading of an instance of the cluster. One query."""
    text = str(reading_id)
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        return None
    rows = DigestReading.objects.filter(instance__cluster=cluster_id).select_related("instance")
    return rows.filter(pk=int(text)).first()


def digest_readings_of(cluster_id: int) -> list[DigestReading]:
    """Return the newest readings of a cluster's instances, without their results. One query."""
    rows = DigestReading.objects.filter(instance__cluster=cluster_id).select_related("instance")
    return list(rows.defer("result")[:SHOWN])


def digests_of(row: DigestReading | None) -> SourceDigests | None:
    """Return what a reading found, ``None`` without a result."""
    return from_record(SourceDigests, row.result) if row and row.result else None
