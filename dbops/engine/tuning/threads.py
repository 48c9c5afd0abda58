"""Choose the threads for copying and unpacking, by cores and disks of both hosts, with reasons.

The kernel's read-ahead is not considered. mariadb-backup reads table spaces 10 MiB at a time (10.11.19, seen with strace), and
XtraBackup as much (``--read-buffer-size``, its manual). With the server's ``innodb_flush_method`` at ``O_DIRECT`` reads bypass
the page cache; with ``fsync`` they go through it, marked as sequential, and the host's own setting applies. The effect on a
rotating disk was not measured.
"""

from enum import Enum

from dbops.engine.facts.instance import HostFacts
from dbops.engine.facts.storage import StorageFacts
from dbops.engine.phrases import phrase

#: One reads while another sends.
PARALLEL_MINIMUM = 2
#: One pipe: more copy threads do not make it faster, and they take resources from the source's clients.
PARALLEL_MAXIMUM = 4
#: A rotating disk reads and writes one place at a time: threads would make it seek between files.
SPINNING = 1


class StreamSide(Enum):
    """One end of a stream: the name of its threads, owner and kind of the data on the disk, and the reason for the limit."""

    SOURCE = ("copy", "source", "the source's data is on", ", and threads make it seek", ": one pipe takes no more")
    TARGET = ("unpacking", "target", "the target's data directory is on", "", "")

    def __init__(self, work: str, name: str, place: str, seeks: str, bound: str) -> None:
        self.work, self.role, self.place, self.seeks, self.bound = work, name, place, seeks, bound


def choose_threads(host: HostFacts, storage: StorageFacts | None = None) -> int:
    """Return the number of threads that copy or unpack on a host: half of its cores, at least 2, at most 4; 1 on a rotating disk.

    One thread reads and sends in turns, 10 MiB each time, while all others in the pipe wait; of two, one reads while the other
    sends. Measured (mariadb-backup and mbstream 10.11.19, 3.5 GB by ssh with aes128-gcm, both ends on two cores, medians of 5,
    2026-11-23): 13.5 s with one thread at each end, 12.1 s with two that copy, 10.6 s where the pipe is also wide
    (``hosts/scripts/pipes.sh``), 10.3 s with two that unpack as well; with four at each end no faster.

    Args:
        host: the end of the stream with these threads.
        storage: of the data on that host; ``None`` if unknown.
    """
    return SPINNING if _turns(storage) else max(PARALLEL_MINIMUM, min(PARALLEL_MAXIMUM, host.cpu_count // 2))


def threads_reason(end: StreamSide, host: HostFacts, storage: StorageFacts | None = None) -> str:
    """Return the reason for the number of threads at this end, as a sentence. Arguments as of ``choose_threads``."""
    threads = phrase("{choose_threads} {work} thread", choose_threads=choose_threads(host, storage), work=end.work)
    if storage and _turns(storage):
        return f"{threads}: {storage.device}, which {end.place}, is a disk that turns{end.seeks}."
    bounds = f"at least {PARALLEL_MINIMUM}, at most {PARALLEL_MAXIMUM}"
    return f"{threads}s: half of the {end.role}'s {_cores(host)}, {bounds}{end.bound}.{_unsure(storage)}"


def _turns(storage: StorageFacts | None) -> bool:
    return storage is not None and storage.turns is True


def _unsure(storage: StorageFacts | None) -> str:
    if storage is None or storage.turns is not None:
        return ""
    # a network file system has no device on this host
    name = f"the device of {storage.filesystem}" if storage.device == "-" else storage.device
    return f" Whether {name} is a disk that turns is unknown: the kernel does not report it, or a virtual machine hides it."


def _cores(host: HostFacts) -> str:
    return phrase("{cpu_count} core{value}", cpu_count=host.cpu_count, value="s" if host.cpu_count > 1 else "")
