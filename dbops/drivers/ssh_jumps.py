"""Ways through jump hosts: one connection to each, shared by all that is behind it.

Shared, because sshd takes few logins at a time (``MaxStartups``), and a fleet behind one jump host is probed at once. The data of
a rebuild never takes this way: hosts stream to each other.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import paramiko

from dbops.drivers.ssh_transport import LOST, Patience, SshAddress, close, log_in, negotiate, tcp, unreachable
from dbops.engine.errors import DbopsError, NoAccess, Unreachable
from dbops.engine.hosts.host_keys import HostKey

#: A connection to a jump host is closed after this time without a use.
IDLE_SECONDS = 60.0
#: The answer of sshd to a forward that its configuration forbids.
PROHIBITED = 1
#: What a jump host may take to answer at all, after a forward has had no answer.
ANSWER_SECONDS = 2.0


class NotForwarded(OSError):
    """A jump host could not connect to an address: that host, or the network behind the jump host, is the cause."""


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
    return _Way(_forward(address.jump, address.address, address.port, patience))


class _Way:
    """A channel in place of a socket. paramiko's thread closes it, and must not end with an error where the jump host is gone."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def close(self) -> None:
        with contextlib.suppress(*LOST):
            self._channel.close()


def _relay(channel: paramiko.Channel, far: socket.socket) -> None:
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


class _Jump:
    """The connection to one jump host."""

    def __init__(self, address: SshAddress) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._transport: paramiko.Transport | None = None
        self._channels: WeakSet[paramiko.Channel] = WeakSet()
        self._used_at = 0.0
        self._failure: tuple[DbopsError, float] | None = None

    def connection(self, patience: Patience) -> tuple[paramiko.Transport, bool]:
        """Return the connection, and whether it was open. Calls that wait for one attempt share its failure: each would fail as late."""
        asked_at = time.monotonic()
        with self._lock:
            self._used_at = time.monotonic()
            if self._transport is not None and self._transport.is_active():
                return self._transport, True
            if self._failure is not None and self._failure[1] > asked_at:
                raise _copy(self._failure[0])
            try:
                self._transport = connect(self.address, patience)
            except DbopsError as error:
                failure = _as_hop(self.address, error)
                self._failure = failure, time.monotonic()
                raise failure from None
            self._check_idle_later()
            return self._transport, False

    def open(self, transport: paramiko.Transport, to: tuple[str, int], timeout_seconds: float) -> paramiko.Channel:
        """Return a channel from the jump host to an address. Raises as paramiko."""
        channel = transport.open_channel("direct-tcpip", to, ("127.0.0.1", 0), timeout=timeout_seconds)
        self._channels.add(channel)
        return channel

    def drop(self, transport: paramiko.Transport) -> None:
        """Close a connection that is of no use any more."""
        with self._lock:
            if self._transport is transport:
                self._transport = None
        close(transport)

    def _check_idle_later(self) -> None:
        timer = threading.Timer(IDLE_SECONDS, self._close_if_idle)
        timer.daemon = True
        timer.start()

    def _close_if_idle(self) -> None:
        with self._lock:
            transport = self._transport
            if transport is None or not transport.is_active():
                return
            is_used = any(not channel.closed for channel in list(self._channels))
            if is_used or time.monotonic() - self._used_at < IDLE_SECONDS:
                self._check_idle_later()
                return
            self._transport = None
        close(transport)
        with _known_lock:
            if _known.get(self.address) is self:
                del _known[self.address]


_known: dict[SshAddress, _Jump] = {}
_known_lock = threading.Lock()


def _forget() -> None:
    """In a forked child: the connections are the parent's, and a lock may have been held by a thread that is not here."""
    global _known_lock  # noqa: PLW0603 - it cannot be released here
    _known_lock = threading.Lock()
    _known.clear()


os.register_at_fork(after_in_child=_forget)


def _forward(jump: SshAddress, host: str, port: int, patience: Patience) -> paramiko.Channel:
    """Return a channel from a jump host to an address. Reconnect if its kept connection is dead."""
    with _known_lock:
        known = _known.setdefault(jump, _Jump(jump))
    transport, is_kept = known.connection(patience)
    began = time.monotonic()
    try:
        return known.open(transport, (host, port), patience.connect_seconds)
    except paramiko.ChannelException as error:
        if error.code == PROHIBITED:
            operation = f"Connecting to {host}:{port} through {jump.shown}"
            raise NoAccess("ssh.jump_refused", operation, cause=error.text) from None
        raise NotForwarded(f"{jump.name} could not connect: {error.text}") from None
    except LOST as error:
        is_late = time.monotonic() - began >= patience.connect_seconds
        if transport.is_active() and (not is_late or _answers(transport)):
            found = f"no answer in {patience.connect_seconds:g} s" if is_late else str(error)
            raise NotForwarded(f"{jump.name} could not connect: {found}") from None
        known.drop(transport)
        if not is_kept:
            raise _as_hop(jump, unreachable(jump, error)) from None
    return _forward(jump, host, port, patience)


def _as_hop(jump: SshAddress, error: DbopsError) -> DbopsError:
    """Return the error with the jump host as its subject, unless it names one."""
    if error.code != "ssh.unreachable":
        return error
    return Unreachable("ssh.jump_unreachable", f"Connecting to {jump.shown}", cause=error.cause)


def _answers(transport: paramiko.Transport) -> bool:
    """Whether a jump host answers at all. A refusal is an answer: it may allow forwards alone."""
    try:
        transport.open_session(timeout=ANSWER_SECONDS).close()
    except paramiko.ChannelException:
        return True
    except LOST:
        return False
    return True


def _copy(error: DbopsError) -> DbopsError:
    """Return an equal error, because threads must not share one traceback."""
    return type(error)(error.code, error.operation, cause=error.cause)
