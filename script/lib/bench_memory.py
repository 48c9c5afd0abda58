"""Memory as on a server that has run for weeks: none of it free, all that nobody needs in the page cache."""

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import IO

CHUNK_BYTES = 8 * 1024**2
#: What the kernel leaves free by itself, and some more.
FREE_PART = 1 / 32
MEMINFO = Path("/proc/meminfo")


def settle() -> None:
    """Wait until nothing is to be written to the disk, and have the page cache take the memory that is free.

    The host of a virtual machine takes free memory back, and the first write to such memory costs several times as much as any other.
    Measured on 2 cores: 4 GiB written by dd at 0.5 GB/s, then at 1.5 GB/s; 3.5 GB of a backup unpacked in 14.2 s, then in 8.0 s. Memory of
    a server that has run for some days is never free, and without this every run that ends with a removed copy slows the next one down.
    """
    os.sync()
    _filler().fill()


class Filler:
    """A file of holes, as large as the memory: to read it takes memory, and neither room on the disk nor its time."""

    def __init__(self, file: IO[bytes], total_bytes: int) -> None:
        self.file, self.total_bytes, self.at = file, total_bytes, 0
        os.truncate(file.fileno(), total_bytes)
        # page by page: to have memory in large pieces the kernel would keep gigabytes free
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def fill(self) -> None:
        """Read on from where it ended the last time, what is the longest in the cache first, until hardly any memory is free."""
        buffer = bytearray(CHUNK_BYTES)
        for _ in range(self.total_bytes // CHUNK_BYTES):
            if memory("MemFree") < self.total_bytes * FREE_PART:
                return
            os.preadv(self.file.fileno(), [buffer], self.at)
            self.at = (self.at + CHUNK_BYTES) % self.total_bytes


def memory(name: str) -> int:
    """Return a line of /proc/meminfo, in bytes."""
    for line in MEMINFO.read_text().splitlines():
        found, _, value = line.partition(":")
        if found == name:
            return int(value.split()[0]) * 1024
    raise LookupError(name)


@cache
def _filler() -> Filler:
    # removed already: its pages go when this process ends
    file = tempfile.TemporaryFile(prefix="dbops-bench-", dir="/var/tmp")  # noqa: S108, SIM115 - a disk's, not the memory's; open to the end
    return Filler(file, memory("MemTotal"))
