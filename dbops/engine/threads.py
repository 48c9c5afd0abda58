"""With how many threads a copy is read and unpacked, by the cores and disks of both ends, and why. Pure.

The kernel's read-ahead is no part of it: mariadb-backup reads table spaces 10 MiB at a time (10.11.19, seen with strace), and XtraBackup as
much (``--read-buffer-size``, its manual). With the server's ``innodb_flush_method`` at ``O_DIRECT`` that goes past the page cache; with
``fsync`` it goes through it, told as sequential, and the host's own setting counts. What that does on a disk that turns was not measured.
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

    More of them do not unpack faster by themselves: 400 MiB, four files in turn, through one pipe into memory, took mbstream 10.11.19 0.67,
    0.72 and 0.63 s with 1, 2 and 4 threads (medians of 25 on two busy cores, from 0.4 s to more than 1.2 s each: no difference to be seen),
    and 0.38, 0.40 and 0.41 s of processor with what fed the pipe. They could help where a write waits for its device: not measured.

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
    if storage is None or storage.turns is not None:
        return ""
    # a network's file system has no device here
    name = f"what {storage.filesystem} lies on" if storage.device == "-" else storage.device
    return f" Whether {name} is a disk that turns is not known: the kernel does not say, or a virtual machine's repeats what it is told."


def _threads(count: int, what: str) -> str:
    return f"{count} {what} thread{'s' if count > 1 else ''}"


def _cores(host: HostFacts) -> str:
    return f"{host.cpu_count} core{'s' if host.cpu_count > 1 else ''}"
