"""Storage engines: what a physical backup has of their tables."""

from collections.abc import Mapping

#: Engines without rows in files of the server: their definition is all that there is.
WITHOUT_FILES = frozenset({"BLACKHOLE", "FEDERATED", "MEMORY", "SPIDER"})
#: Engines whose rows are elsewhere, or nowhere. As ``engines_elsewhere`` in ``common.sh``.
ELSEWHERE = ("BLACKHOLE", "CONNECT", "FEDERATED", "NDBCLUSTER", "OQGRAPH", "S3", "SPHINX", "SPIDER")
#: Copied under a lock at the end.
LOCKED = frozenset({"ARCHIVE", "ARIA", "CSV", "MRG_MYISAM", "MYISAM"})
#: Copied from a checkpoint, without a lock. Measured with mariadb-backup 10.11.19; XtraBackup was never tried with MyRocks, and none
#: copies TokuDB or NDB.
FROM_A_CHECKPOINT: Mapping[str, frozenset[str]] = {"mariadb": frozenset({"ROCKSDB"})}


def not_copied(engines: Mapping[str, int], *, flavor: str) -> dict[str, int]:
    """Return the engines whose tables a physical backup lacks, with their number of tables."""
    known = WITHOUT_FILES | LOCKED | FROM_A_CHECKPOINT.get(flavor, frozenset())
    return {name: count for name, count in engines.items() if name.upper() not in known}


def locked(engines: Mapping[str, int]) -> dict[str, int]:
    """Return the engines whose tables take no writes while they are copied."""
    return {name: count for name, count in engines.items() if name.upper() in LOCKED}


def as_text(engines: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {engine}" for engine, count in sorted(engines.items()))
