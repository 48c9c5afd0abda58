"""Positions in the backup tools' metadata files."""

from dbops.engine.flavors.base import Coordinates
from dbops.engine.flavors.gtid import without_space


def parse_binlog_info(text: str) -> Coordinates:
    """Parse ``file TAB position [TAB gtid]``; empty for any other text.

    The GTID part may contain newlines (XtraBackup 2.4.9 with several uuids): the first line alone would lose transactions.
    """
    parts = text.strip().split("\t", 2)
    if len(parts) < 2 or not parts[1].strip().isdigit():
        return Coordinates()
    return Coordinates(parts[0].strip(), int(parts[1]), without_space(parts[2]) if len(parts) > 2 else "")
