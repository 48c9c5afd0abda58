"""Check backup schedules and calculate their next due time, for browser and file."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from dbops.engine.phrases import phrase
from dbops.engine.states import Role, RunBy
from dbops.fleetfile.rules import nested
from dbops.lib.cron import next_due
from dbops.models import BackupSchedule

#: Fields that determine the due times.
DUE_FIELDS = frozenset({"cron", "time_zone", "is_enabled"})


def schedule_problems(
    values: Mapping[str, Any], datadirs: Mapping[str, str], *, role: str = ""
) -> Iterator[tuple[str, str]]:
    """Find problems of field combinations, as pairs of field and text.

    Args:
        values: valid model fields.
        datadirs: data directory by instance name, for the host that stores the backup.
        role: of the instance.
    """
    if role == Role.TIDB:
        yield "run_by", phrase("dbops has no backups of TiDB: BR makes them")
    if values.get("run_by") == RunBy.DBOPS and "directory" in values and not values["directory"]:
        yield "directory", phrase("dbops runs this backup: set its directory")
    directory = values.get("directory") or ""
    for name, datadir in datadirs.items():
        if directory and (directory == datadir or nested(directory, datadir)):
            # A rebuild moves the data directory aside, and a backup inside it would copy itself.
            yield (
                "directory",
                phrase(
                    "{directory} and the data directory of {name} ({datadir}) must not be nested",
                    directory=directory,
                    name=repr(name),
                    datadir=datadir,
                ),
            )


def due_column(row: BackupSchedule, changed: Collection[str], now: datetime) -> dict[str, datetime | None]:
    """Return ``next_due_at`` for a row with updated fields; nothing if it does not change.

    A change of other fields must not lose a past due time that was not handled yet.
    """
    if row.pk and not DUE_FIELDS.intersection(changed):
        return {}
    return {"next_due_at": next_due(row.cron, row.time_zone, now) if row.is_enabled else None}
