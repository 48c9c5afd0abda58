"""Store the hourly readings of probes, with the rates since the reading before."""

from typing import Any

from dbops.engine.capacity.rates import COUNTERS, UPTIME, rates
from dbops.engine.facts.instance import InstanceFacts, to_record
from dbops.models import CapacityReading, Instance
from dbops.security.redaction import without_nul

#: What a column can store.
LARGEST = 2**63 - 1


def note_reading(instance: Instance, facts: InstanceFacts) -> bool:
    """Store what this probe read, if it read it. Return whether it is new: a second call stores nothing."""
    reading = facts.growth
    if reading is None or reading.read_at != facts.observed_at:
        return False
    values: dict[str, Any] = {**to_record(reading), **_of_host(facts), **_of_server(facts)}
    del values["read_at"]
    # a server or host can report any number
    values = {
        name: None if isinstance(value, int) and abs(value) > LARGEST else value for name, value in values.items()
    }
    # a reading that failed has no counters
    earlier = CapacityReading.objects.filter(instance=instance, at__lt=reading.read_at, uptime_seconds__isnull=False)
    if before := earlier.order_by("-at").values("at", UPTIME, *COUNTERS).first():
        found = rates(before, before["at"], values, reading.read_at)
        values |= {f"{name}_per_second": rate for name, rate in found.items()}
    _, is_new = CapacityReading.objects.get_or_create(
        instance=instance, at=reading.read_at, defaults=without_nul(values)
    )
    return is_new


def _of_host(facts: InstanceFacts) -> dict[str, int | None]:
    """Return what the probe found on the host; nothing while that is silent."""
    directory = facts.datadir
    if directory is None or not directory.exists:
        return {}
    return {
        "disk_bytes": directory.disk_bytes,
        "disk_free_bytes": directory.free_bytes if directory.disk_bytes is not None else None,
        "data_dir_bytes": directory.total_bytes,
        "kept_bytes": directory.kept_bytes,
        "backup_bytes": directory.data_bytes,
    }


def _of_server(facts: InstanceFacts) -> dict[str, int | None]:
    server = facts.server
    if server is None:
        return {}
    return {
        "file_bytes": server.innodb_bytes,
        "binlog_expire_seconds": server.binlog_expire_seconds if server.log_bin else None,
        "redo_capacity_bytes": server.redo_capacity_bytes or None,
    }
