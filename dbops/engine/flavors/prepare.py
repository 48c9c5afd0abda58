"""Memory and thread use of each backup tool's prepare, by tool and version.

``docs/explanation/prepare.md`` has the measurements and reasons; other values name their origin.
"""

from dataclasses import dataclass

from dbops.engine.phrases import phrase

MIB = 1024**2
Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PrepareBehavior:
    """A tool's behavior that ``--prepare`` options depend on.

    ``memory_per_redo`` is the memory, in multiples of the redo log's size, with which the tool applies the redo log in one batch:
    it keeps the parsed records in the same memory as the pages. ``threads_apply``: read threads apply redo, so more of them use
    more cores; ``threads_reason`` is shown in both cases. ``takes_own_estimate``: the tool may use its own estimate from the
    copy.
    """

    default_memory_bytes: int
    memory_per_redo: float
    memory_reason: str
    threads_apply: bool
    threads_reason: str
    takes_own_estimate: bool = False


def mariadb_backup(version: Version | None) -> PrepareBehavior:
    """MariaDB 10.5 removed the read threads: a thread pool completes reads, and the option only limits pending reads.

    A batch ends when half of the pool is full of records (measured with 10.11.19: 48 MB of redo in a pool of 96 MiB).
    """
    pooled = version is None or version >= (10, 5, 0)
    return PrepareBehavior(
        default_memory_bytes=96 * MIB,
        memory_per_redo=2.5,
        memory_reason=phrase(
            "mariadb-backup keeps records in half of this memory at most; what fits at once is one batch, and "
            "each further batch reads and writes most pages again"
        ),
        threads_apply=not pooled,
        threads_reason=phrase("since 10.5 a thread pool completes reads, and 1024 on their way are enough")
        if pooled
        else phrase("before 10.5 the read threads apply the redo log"),
    )


def xtrabackup(version: Version | None) -> PrepareBehavior:
    """Use Percona's own figures: 3.4, 8.6 and 18.5 GB for 0.7, 2.6 and 5.6 GB of redo (its manual, smart-memory-estimation).

    ``--use-free-memory-pct`` came with 8.0.30 and has no effect unless the backup was made with ``--estimate-memory`` (seen with
    8.0.35 and 8.4.0).
    """
    return PrepareBehavior(
        default_memory_bytes=100 * MIB if version and version < (8, 0, 0) else 128 * MIB,
        memory_per_redo=4.0,
        memory_reason=phrase(
            "XtraBackup needs 3.3 to 4.8 times the redo log to apply it in one batch (its manual's figures), and "
            "each further batch reads and writes most pages again"
        ),
        threads_apply=True,
        threads_reason=phrase("its read threads apply the redo log to the pages that they read"),
        takes_own_estimate=version is not None and version >= (8, 0, 30),
    )
