"""Cuts a backup stream at the end of a chunk: chunks.py KEEP_BYTES <stream >shorter.

At least ``KEEP_BYTES`` are passed on, up to the end of a chunk; the rest is read and thrown away, so that the sender ends as if
nothing had happened. Both unpacking tools end with status 0 on such a stream.

A chunk is: magic (8), flags (1), type (1), length of the path (4), path; with type P also length (8), offset (8), checksum (4)
and the bytes. Numbers are little-endian.
"""

import struct
import sys
from typing import BinaryIO

MAGIC = b"XBSTCK01"
PAYLOAD, END = b"P", b"E"


def read_chunk(stream: BinaryIO) -> bytes:
    """Return one whole chunk, ``b""`` at the end. Raises ``ValueError`` for what is none."""
    head = stream.read(14)
    if not head:
        return b""
    if head[:8] != MAGIC or head[9:10] not in (PAYLOAD, END):
        raise ValueError(f"not a chunk that is known here: {head!r}")
    path = stream.read(struct.unpack("<I", head[10:14])[0])
    if head[9:10] == END:
        return head + path
    rest = stream.read(20)
    return head + path + rest + stream.read(struct.unpack("<Q", rest[:8])[0])


def cut(source: BinaryIO, sink: BinaryIO, keep_bytes: int) -> None:
    kept = 0
    while chunk := read_chunk(source):
        if kept < keep_bytes:
            sink.write(chunk)
            kept += len(chunk)
    sink.flush()


if __name__ == "__main__":
    cut(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]))
