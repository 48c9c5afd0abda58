"""TiDB: how a server is recognized as one, and why no job of dbops is for it.

A TiDB server answers like MySQL 8.0, but keeps no data: rows are in regions on TiKV nodes, and Raft keeps copies of each region.
"""

import re

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase

NAME = "tidb"
REASON = phrase("a TiDB node has no MySQL data directory, and TiDB replicates its data itself (Raft)")
OWN_MEANS = phrase("Replace a node with TiUP or TiDB Operator (scale out, then in). Back up and restore with BR.")

_RELEASE = re.compile(r"-TiDB-(?:v)?(\d+\.\d+\.\d+)", re.IGNORECASE)


def is_tidb(version: str, version_comment: str = "") -> bool:
    """Return whether a server is a TiDB node.

    Args:
        version: ``VERSION()``, as ``8.0.11-TiDB-v8.5.1``. An operator can set another one (``server-version``).
        version_comment: ``@@version_comment``, which begins with ``TiDB Server``, or ``tidb`` where the flavor is known.
    """
    return "-tidb-" in version.lower() or version_comment.lower().startswith(NAME)


def release_of(version: str, tidb_version: str = "") -> str:
    """Return TiDB's own version (``8.5.1``), ``""`` if neither text tells it.

    Args:
        tidb_version: ``tidb_version()``, whose first line is ``Release Version: v8.5.1``.
    """
    found = _RELEASE.search(version) or re.search(r"Release Version: v?(\d+\.\d+\.\d+)", tidb_version)
    return found[1] if found else ""


def store_of(tidb_version: str) -> str:
    """Return what keeps the data: ``tikv``, or ``unistore`` of a node that keeps a test's data itself; ``""`` if it is not in the text."""
    found = re.search(r"^Store: (\w+)", tidb_version, re.MULTILINE)
    return found[1].lower() if found else ""


def not_offered(operation: str) -> Refused:
    """Return the refusal of a job for a TiDB node."""
    return Refused.unchanged("flavor.tidb", operation, REASON, next_step=OWN_MEANS)
