"""Whether a backup's position is one of the planned server's own binary logs.

The tool reads the position from the server that it is logged in to, and the files from the data directory. On real hosts both
can be of different servers: a copy with another server's position loses or repeats transactions without an error.
"""

import re
from collections.abc import Mapping

from dbops.engine.flavors.base import Coordinates, Flavor
from dbops.engine.flavors.gtid import parse_position
from dbops.engine.phrases import phrase

_NUMBERED = re.compile(r"^(.*)\.(\d{1,18})$")


def foreign_position(flavor: Flavor, position: Coordinates, logs: Mapping[str, int], *, gtid_there: str | None) -> str:
    """Return why the position is not of the server with these binary logs, as the end of a sentence; ``""`` if it can be.

    Args:
        position: from the tool's metadata.
        logs: the server's binary logs, read after the backup: name to size in bytes. Empty if it has none.
        gtid_there: MariaDB's GTID position at that place, by the server (``BINLOG_GTID_POS``); ``None`` if unknown.
    """
    if not logs or not position.log_file:
        return ""
    place = phrase("{log_file} at {log_pos}", log_file=position.log_file, log_pos=position.log_pos)
    size = logs.get(position.log_file)
    if size is None:
        return (
            ""
            if _is_purged(position.log_file, logs)
            else phrase("the backup's position is {place}, which is no binary log of it", place=place)
        )
    if position.log_pos is not None and position.log_pos > size:
        return phrase("the backup's position is {place}, but that binary log has {size} bytes", place=place, size=size)
    if flavor.name != "mariadb" or not position.gtid or gtid_there is None:
        return ""
    recorded, own = parse_position(position.gtid), parse_position(gtid_there)
    if any(recorded.get(domain) != entry for domain, entry in own.items()):
        return phrase(
            "the backup's GTID position is {gtid}, but its own at {place} is {known}",
            gtid=position.gtid,
            place=place,
            known=gtid_there or phrase("empty"),
        )
    return ""


def _is_purged(name: str, logs: Mapping[str, int]) -> bool:
    """Return whether a log of this name can have been removed since: the server's logs begin after it."""
    wanted, first = _NUMBERED.fullmatch(name), _NUMBERED.fullmatch(next(iter(logs)))
    return bool(wanted and first and wanted[1] == first[1] and int(wanted[2]) < int(first[2]))
