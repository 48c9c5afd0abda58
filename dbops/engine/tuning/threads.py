"""Choose the threads for copying and unpacking, by cores and disks of both hosts, with reasons.

The kernel's read-ahead is not considered. mariadb-backup reads table spaces 10 MiB at a time (10.11.19, seen with strace), and
XtraBackup as much (``--read-buffer-size``, its manual). With the server's ``innodb_flush_method`` at ``O_DIRECT`` reads bypass
the page cache; with ``fsync`` they go through it, marked as sequential, and the host's own setting applies. The effect on a
rotating disk was not measured.
"""

from enum import Enum

from dbops.engine.facts.instance import HostFacts
from dbops.engine.facts.storage import StorageFacts
from dbops.engine.phrases import Phrase, joined, phrase, phrases

#: One reads while another sends.
PARALLEL_MINIMUM = 2
#: One pipe: more copy threads do not make it faster, and they take resources from the source's clients.
PARALLEL_MAXIMUM = 4
#: A rotating disk reads and writes one place at a time: threads would make it seek between files.
SPINNING = 1


class StreamSide(Enum):
    """One end of a stream."""

    SOURCE = "source"
    TARGET = "target"


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
    if storage and _turns(storage):
        return _of_rotating_disk(end, storage)
    values = {
        "threads": choose_threads(host, storage),
        "cores": phrases("{number} core", "{number} cores", host.cpu_count),
        "least": PARALLEL_MINIMUM,
        "most": PARALLEL_MAXIMUM,
    }
    if end is StreamSide.SOURCE:
        reason = phrase(
            "{threads} copy threads: half of the source's {cores}, at least {least}, at most {most}: one pipe takes no more.",
            **values,
        )
    else:
        reason = phrase(
            "{threads} unpacking threads: half of the target's {cores}, at least {least}, at most {most}.", **values
        )
    unsure = _unsure(storage)
    return joined((reason, unsure)) if unsure else reason


def _of_rotating_disk(end: StreamSide, storage: StorageFacts) -> Phrase:
    if end is StreamSide.SOURCE:
        return phrase(
            "{threads} copy thread: {device}, which the source's data is on, is a disk that turns, and threads make it seek.",
            threads=SPINNING,
            device=storage.device,
        )
    return phrase(
        "{threads} unpacking thread: {device}, which the target's data directory is on, is a disk that turns.",
        threads=SPINNING,
        device=storage.device,
    )


def _turns(storage: StorageFacts | None) -> bool:
    return storage is not None and storage.turns is True


def _unsure(storage: StorageFacts | None) -> str:
    if storage is None or storage.turns is not None:
        return ""
    # a network file system has no device on this host
    name = (
        phrase("the device of {filesystem}", filesystem=storage.filesystem) if storage.device == "-" else storage.device
    )
    return phrase(
        "Whether {name} is a disk that turns is unknown: the kernel does not report it, or a virtual machine hides it.",
        name=name,
    )
