"""Loopback networks for tests: several suites may run side by side on one machine."""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

FIRST, COUNT = 100, 150
RESERVED = Path(tempfile.gettempdir()) / f"dbops-test-networks-{os.getuid()}"
# Open for as long as this process lives: the lock goes with it, however it ends.
_locks: list[int] = []


def free_network() -> str:
    """Reserve a loopback network that nobody uses for the rest of this process, and return its first three numbers."""
    RESERVED.mkdir(mode=0o700, exist_ok=True)
    for step in range(COUNT):
        network = f"127.0.{FIRST + (os.getpid() * 3 + step * 11) % COUNT}"
        # Between the look at its ports and the start of its hosts another suite could find it free as well.
        if _reserve(network) and _is_free(network):
            return network
    raise RuntimeError("every loopback network is in use")


def _reserve(network: str) -> bool:
    lock = os.open(RESERVED / network, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return False
    _locks.append(lock)
    return True


def _is_free(network: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((f"{network}.11", 2222))
        except OSError:
            return False
    return True
