"""Ways through jump hosts: a connection to each for every connection behind it. The data of a rebuild never takes this way.

Not shared: after a close, paramiko may still send what another thread had begun to send, and sshd then ends the whole connection, or gives
the bytes to a new channel of the same number (measured: 15 of 200 connections failed).
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import paramiko

from dbops.drivers.ssh_transport import (
    LOST,
    Patience,
    SshAddress,
    close,
    log_in,
    negotiate,
    presented_certificate,
    tcp,
    unreachable,
)
from dbops.engine.errors import DbopsError, NoAccess, Unreachable
from dbops.engine.hosts.host_keys import HostKey
from dbops.engine.phrases import phrase

#: The answer of sshd to a forward that its configuration forbids.
PROHIBITED = 1
#: What a jump host may take to answer at all, after a forward has had no answer.
ANSWER_SECONDS = 2.0


class NotForwarded(OSError):
    """A jump host could not connect to an address: that host, or the network behind the jump host, is the cause."""


class _Way:
    """A channel in place of a socket. paramiko's thread closes it, and must not end with an error where the jump host is gone."""

    def __init__(self, channel: paramiko.Channel, transport: paramiko.Transport) -> None:
        self._channel = channel
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def close(self) -> None:
        with contextlib.suppress(*LOST):
            self._channel.close()
        close(self._transport)


def connect(address: SshAddress, patience: Patience) -> paramiko.Transport:
    """Return a connection to a host that is logged in, through its jump hosts if it has any.

    Raises:
        Unreachable: the host (``ssh.unreachable``), or the jump host that is named (``ssh.jump_unreachable``).
        NoAccess: a host key or login of the host or of a jump host; a jump host forwards nothing (``ssh.jump_refused``).
        Refused: a private or pinned key is not valid.
    """
    return log_in(address, lambda: _dial(address, patience), patience)


def fetch_host_key(address: str, port: int, timeout_seconds: float = 5.0, *, jump: SshAddress | None = None) -> HostKey:
    """Return a host's key without logging in. Raises ``Unreachable`` (``ssh.unreachable``), and for jump hosts as ``connect``."""
    place = SshAddress(address, port, "", "", jump=jump)
    patience = Patience(timeout_seconds, dead_after_seconds=timeout_seconds)
    transport, found = negotiate(place, lambda: _dial(place, patience), timeout_seconds, pinned=None)
    close(transport)
    return found


def fetch_host_certificate(
    address: str, port: int, timeout_seconds: float = 5.0, *, jump: SshAddress | None = None
) -> str:
    """Return the certificate of a host's key as a line, ``""`` without one. Raises as ``fetch_host_key``."""
    place = SshAddress(address, port, "", "", jump=jump)
    patience = Patience(timeout_seconds, dead_after_seconds=timeout_seconds)
    return presented_certificate(place, lambda: _dial(place, patience), timeout_seconds)


def forwarded_socket(jump: SshAddress, host: str, port: int, *, timeout_seconds: float = 5.0) -> socket.socket:
    """Return a socket of this process that leads through a jump host to an address. Nothing listens anywhere.

    Raises:
        NotForwarded: the jump host could not connect.
        Unreachable: of a jump host, as ``connect``.
    """
    channel = _forward(jump, host, port, Patience(timeout_seconds))
    near, far = socket.socketpair()
    threading.Thread(target=_relay, args=(channel, far), daemon=True).start()
    return near


def _dial(address: SshAddress, patience: Patience) -> Any:
    if address.jump is None:
        return tcp(address, patience)
    return _forward(address.jump, address.address, address.port, patience)


def _relay(channel: _Way, far: socket.socket) -> None:
    """Copy both directions until one ends."""

    def copy(receive: Callable[[int], bytes], send: Callable[[bytes], Any]) -> None:
        with contextlib.suppress(*LOST):
            while part := receive(65536):
                send(part)
        with contextlib.suppress(*LOST):
            channel.close()
        with contextlib.suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)  # wakes the other direction; closing alone would not

    with far:
        outward = threading.Thread(target=copy, args=(far.recv, channel.sendall), daemon=True)
        outward.start()
        copy(channel.recv, far.sendall)
        outward.join()


def _forward(jump: SshAddress, host: str, port: int, patience: Patience) -> _Way:
    """Return a channel from a jump host to an address, over a connection of its own."""
    try:
        transport = connect(jump, patience)
    except DbopsError as error:
        raise _as_hop(jump, error) from None
    began = time.monotonic()
    try:
        channel = transport.open_channel(
            "direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=patience.connect_seconds
        )
    except paramiko.ChannelException as error:
        close(transport)
        if error.code == PROHIBITED:
            operation = phrase("Connecting to {host}:{port} through {jump}", host=host, port=port, jump=jump.shown)
            raise NoAccess("ssh.jump_refused", operation, cause=error.text) from None
        raise NotForwarded(f"{jump.name} could not connect: {error.text}") from None
    except LOST as error:
        is_late = time.monotonic() - began >= patience.connect_seconds
        is_alive = transport.is_active() and (not is_late or _answers(transport))
        close(transport)
        if not is_alive:
            raise _as_hop(jump, unreachable(jump, error)) from None
        found = f"no answer in {patience.connect_seconds:g} s" if is_late else str(error)
        raise NotForwarded(f"{jump.name} could not connect: {found}") from None
    return _Way(channel, transport)


def _as_hop(jump: SshAddress, error: DbopsError) -> DbopsError:
    """Return the error with the jump host as its subject, unless it names one."""
    if error.code != "ssh.unreachable":
        return error
    return Unreachable("ssh.jump_unreachable", phrase("Connecting to {jump}", jump=jump.shown), cause=error.cause)


def _answers(transport: paramiko.Transport) -> bool:
    """Whether a jump host answers at all. A refusal is an answer: it may allow forwards alone."""
    try:
        transport.open_session(timeout=ANSWER_SECONDS).close()
    except paramiko.ChannelException:
        return True
    except LOST:
        return False
    return True
