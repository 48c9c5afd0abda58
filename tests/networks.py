"""Loopback networks and ports for tests, and who answers there: several suites may run side by side on one machine."""

import os
import socket
import urllib.error
import urllib.request

FIRST, COUNT = 100, 150
#: Below the ports that the kernel gives to connections (from 32768 on): another process may take one of these at any moment.
FIRST_PORT, PORT_COUNT = 21000, 11000
# Each reservation is a socket with an abstract name. The kernel removes it with the process, and it leaves no file.
_reserved: list[socket.socket] = []


def free_network() -> str:
    """Reserve an unused loopback network for the rest of this process, and return its first three numbers."""
    for step in range(COUNT):
        network = f"127.0.{FIRST + (os.getpid() * 3 + step * 11) % COUNT}"
        # Between the look at its ports and the start of its hosts another suite could find it free as well.
        if _reserve(network) and _is_free(f"{network}.11", 2222):
            return network
    raise RuntimeError("every loopback network is in use")


def free_port() -> int:
    """Reserve a port of 127.0.0.1 for the rest of this process. No connection takes it before its server has started."""
    for step in range(PORT_COUNT):
        port = FIRST_PORT + (os.getpid() * 7 + step) % PORT_COUNT
        if _reserve(f"port-{port}") and _is_free("127.0.0.1", port):
            return port
    raise RuntimeError("every port is in use")


def _reserve(name: str) -> bool:
    reserved = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        reserved.bind(f"\0dbops-test-{name}")
    except OSError:
        reserved.close()
        return False
    _reserved.append(reserved)
    return True


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False
