"""How slow a stream may be made: slower, and the source's redo log is overwritten before it is read. Pure."""

from math import ceil

MIB = 1024**2
#: Of the redo log's capacity so much counts as usable: the server makes room before it is full.
USABLE = 0.5
#: A rate is an average of some seconds of writes, and writes come in waves.
MARGIN = 2.0
#: Nobody wants to wait for less, and a stream that hardly moves looks stalled to everybody.
SLOWEST = 64 * 1024


def floor_of(
    *, bytes_to_copy: int | None, redo_capacity_bytes: int | None, redo_bytes_per_second: float | None, parallel: int
) -> int:
    """Return the bytes a second below which a stream may not be held, as the redo log of its source would not outlast it.

    Either of two is enough. The whole copy ends before the writes of its time fill half of the redo log; or the redo copier, which
    shares the one pipe with ``parallel`` threads that copy pages, keeps up with twice the rate of the writes all the while.

    Args:
        bytes_to_copy: of the data; ``None`` where it is not known.
        redo_capacity_bytes, redo_bytes_per_second: of the source, ``None`` where not known: then only ``SLOWEST`` is known to be too slow.
        parallel: threads of the backup tool that copy pages.
    """
    if not redo_bytes_per_second or redo_capacity_bytes is None:
        return SLOWEST
    keeps_up = MARGIN * redo_bytes_per_second * (parallel + 1)
    if bytes_to_copy is None:
        return max(SLOWEST, ceil(keeps_up))
    in_time = bytes_to_copy * redo_bytes_per_second / (USABLE * redo_capacity_bytes)
    return max(SLOWEST, ceil(min(keeps_up, in_time)))
