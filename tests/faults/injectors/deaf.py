"""Act as a backup tool that ignores signals: send chunks for as long as a process reads them, and then wait,
ten minutes in all: a suite that was killed leaves it behind."""

import signal
import struct
import sys
import time
import zlib

PAYLOAD = b"\0" * 65536
PATH = b"ibdata1"

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
offset, ends = 0, time.monotonic() + 600
while time.monotonic() < ends:
    head = b"XBSTCK01\0P" + struct.pack("<I", len(PATH)) + PATH
    try:
        sys.stdout.buffer.write(head + struct.pack("<QQI", len(PAYLOAD), offset, zlib.crc32(PAYLOAD)) + PAYLOAD)
        sys.stdout.buffer.flush()
    except OSError:
        time.sleep(1)
    offset += len(PAYLOAD)
    time.sleep(0.02)
