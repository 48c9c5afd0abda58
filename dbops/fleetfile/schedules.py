"""What a backup schedule must be, and when it is due next: the same for the browser and for the file."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from dbops.engine.backup_states import RunBy
from dbops.fleetfile.rules import nested
from dbops.lib.cron import next_due
from dbops.models import BackupSchedule

#: A change of one of these means that it is due at other times.
DUE_FIELDS = frozenset({"cron", "time_zone", "is_enabled"})


def schedule_problems(values: Mapping[str, Any], datadirs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Find what is wrong with fields together: the field, and the text.

    Args:
        values: the model's fields, those that could be read.
        datadirs: data directory by name of each instance on the host on which the backup is written.
    """
    if values.get("run_by") == RunBy.DBOPS and "directory" in values and not values["directory"]:
        yield "directory", "dbops runs this backup: give the directory to which it writes"
    directory = values.get("directory") or ""
    for name, datadir in datadirs.items():
        if directory and (directory == datadir or nested(directory, datadir)):
            # A rebuild moves the data directory aside, and a backup in it would copy itself.
            yield "directory", f"{directory} and the data directory of {name!r} ({datadir}) must not lie in each other"


def due_column(row: BackupSchedule, changed: Collection[str], now: datetime) -> dict[str, datetime | None]:
    """Return ``next_due_at`` for a row whose fields hold already what is wanted; nothing where it stays.

    A change of other fields must not lose a due time that has passed and that nobody has acted on yet.
    """
    if row.pk and not DUE_FIELDS.intersection(changed):
        return {}
    return {"next_due_at": next_due(row.cron, row.time_zone, now) if row.is_enabled else None}
