"""Loopback networks for tests: several suites may run side by side on one machine."""

import os
import socket

FIRST, COUNT = 100, 150


def free_network(number: int = 0) -> str:
    """Return the first three numbers of a loopback network that nobody uses; different ``number`` gives different ones."""
    for step in range(COUNT):
        network = f"127.0.{FIRST + (os.getpid() * 3 + number * 7 + step * 11) % COUNT}"
        with socket.socket() as probe:
            try:
                probe.bind((f"{network}.11", 2222))
            except OSError:
                continue
            return network
    raise RuntimeError("every loopback network is in use")
