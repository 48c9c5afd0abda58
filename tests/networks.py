"""Loopback networks and ports for tests: several suites may run side by side on one machine."""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

FIRST, COUNT = 100, 150
#: Below the ports that the kernel gives to whoever connects (from 32768 on): of these one that was free a moment ago may be anybody's.
FIRST_PORT, PORT_COUNT = 21000, 11000
RESERVED = Path(tempfile.gettempdir()) / f"dbops-test-networks-{os.getuid()}"
# Open for as long as this process lives: the lock goes with it, however it ends.
_locks: list[int] = []


def free_network() -> str:
    """Reserve a loopback network that nobody uses for the rest of this process, and return its first three numbers."""
    RESERVED.mkdir(mode=0o700, exist_ok=True)
    for step in range(COUNT):
        network = f"127.0.{FIRST + (os.getpid() * 3 + step * 11) % COUNT}"
        # Between the look at its ports and the start of its hosts another suite could find it free as well.
        if _reserve(network) and _is_free(f"{network}.11", 2222):
            return network
    raise RuntimeError("every loopback network is in use")


def free_port() -> int:
    """Reserve a port of 127.0.0.1 for the rest of this process. Nobody's connection takes it before its server has started."""
    RESERVED.mkdir(mode=0o700, exist_ok=True)
    for step in range(PORT_COUNT):
        port = FIRST_PORT + (os.getpid() * 7 + step) % PORT_COUNT
        if _reserve(f"port-{port}") and _is_free("127.0.0.1", port):
            return port
    raise RuntimeError("every port is in use")


def _reserve(name: str) -> bool:
    lock = os.open(RESERVED / name, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return False
    _locks.append(lock)
    return True


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
