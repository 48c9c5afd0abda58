"""With how many threads a copy is read and unpacked, by the cores and disks of both ends, and why. Pure.

The kernel's read-ahead is no part of it: mariadb-backup reads table spaces past the page cache, 10 MiB at a time (10.11.19, seen with
strace), and XtraBackup as much (``--read-buffer-size``, its manual).
"""

from dbops.engine.facts import HostFacts, StorageFacts

#: One pipe: more copy threads than this do not make it faster, and they take from the source's readers.
PARALLEL_MAXIMUM = 4
#: A disk that turns reads and writes one place at a time: threads make it seek between files that would be passed through in order.
SPINNING = 1


def choose_parallel(source: HostFacts, storage: StorageFacts | None = None) -> int:
    """Return the number of copy threads: half of the source's cores, at least 1, at most 4; 1 where its disk turns.

    Args:
        storage: what the data is read from; ``None`` where that is not known.
    """
    return SPINNING if _turns(storage) else max(1, min(PARALLEL_MAXIMUM, source.cpu_count // 2))


def parallel_reason(source: HostFacts, storage: StorageFacts | None = None) -> str:
    """Return why the backup tool copies with so many threads, as a sentence."""
    if storage and _turns(storage):
        return f"1 copy thread: {storage.device}, which the source's data lies on, is a disk that turns, and threads make it seek."
    return (
        f"{_threads(choose_parallel(source, storage), 'copy')}: half of the source's {_cores(source)}, at most {PARALLEL_MAXIMUM}: "
        f"one pipe takes no more.{_unsure(storage)}"
    )


def choose_unpackers(target: HostFacts, storage: StorageFacts | None = None) -> int:
    """Return the number of threads that unpack: half of the target's cores, at least 1, at most 4; 1 where its disk turns.

    Args:
        storage: what is written to; ``None`` where that is not known.
    """
    return SPINNING if _turns(storage) else max(1, min(PARALLEL_MAXIMUM, target.cpu_count // 2))


def unpackers_reason(target: HostFacts, storage: StorageFacts | None = None) -> str:
    """Return why the copy is unpacked with so many threads, as a sentence."""
    if storage and _turns(storage):
        return f"1 thread unpacks: {storage.device}, which the target's data directory lies on, is a disk that turns."
    return (
        f"{_threads(choose_unpackers(target, storage), 'unpacking')}: half of the target's {_cores(target)}, at most "
        f"{PARALLEL_MAXIMUM}.{_unsure(storage)}"
    )


def _turns(storage: StorageFacts | None) -> bool:
    return storage is not None and storage.turns is True


def _unsure(storage: StorageFacts | None) -> str:
    if storage is not None and storage.turns is None:
        return f" Whether {storage.device} is a disk that turns is not known: a virtual machine's kernel repeats what it is told."
    return ""


def _threads(count: int, what: str) -> str:
    return f"{count} {what} thread{'s' if count > 1 else ''}"


def _cores(host: HostFacts) -> str:
    return f"{host.cpu_count} core{'s' if host.cpu_count > 1 else ''}"
