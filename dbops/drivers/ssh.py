"""SSH to one host; the only module that imports paramiko.

Measured pitfalls: keepalive never notices a dead peer (hence TCP_USER_TIMEOUT, and a watchdog for a peer that answers
TCP but not SSH); ``exec_command`` and ``recv_exit_status`` wait forever; reading one output after the other hangs when
the window is full; a status of -1 has no meaning.
"""

import contextlib
import io
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import IncompatiblePeer

from dbops.drivers.gate import CHALLENGE, REFUSED_PREFIX, REFUSED_STATUS, Gate
from dbops.drivers.quoting import for_any_shell, quote
from dbops.engine.errors import Bug, NoAccess, Refused, Unreachable
from dbops.engine.hosts.host_keys import HOST_KEY_ALGORITHMS, HostKey, fingerprint_of_blob, parse_host_key
from dbops.engine.ports import CommandResult, Shell

# paramiko logs tracebacks of its own thread; the caller gets relevant errors as exceptions
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

OUTPUT_LIMIT_BYTES = 4 * 1024 * 1024
#: Linux limits an argument to 128 KiB, and sshd passes the command to the login shell as one argument
COMMAND_LIMIT_BYTES = 120 * 1024
WEAK_MACS = ["hmac-md5", "hmac-md5-96", "hmac-sha1", "hmac-sha1-96"]
KEY_ERRORS = (paramiko.SSHException, UnknownKeyType, ValueError, IndexError, TypeError, struct.error)
KEY_CLASSES: tuple[type[paramiko.PKey], ...] = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


@dataclass(frozen=True, slots=True)
class SshAddress:
    """Address and credentials.

    Args:
        host_key: the pinned ``type base64``, ``""`` if none was accepted.
        gate: runs commands as root through sudo; ``None``: they run as ``user``.
    """

    address: str
    port: int
    user: str
    private_key: str = field(repr=False)
    host_key: str = ""
    gate: Gate | None = None

    @property
    def place(self) -> str:
        return f"{self.user}@{self.address}:{self.port}"


class SshShell(Shell):
    """``Shell`` over one SSH connection, opened on first use and kept. Concurrent calls wait for each other.

    Args:
        address: address and credentials.
        connect_timeout_seconds: for each of TCP, banner with key exchange, and login.
        keepalive_seconds: between keepalive messages on an idle connection.
        dead_after_seconds: time without acknowledgment of sent data until the kernel closes the connection.
    """

    def __init__(
        self,
        address: SshAddress,
        *,
        connect_timeout_seconds: float = 5.0,
        keepalive_seconds: int = 5,
        dead_after_seconds: float = 10.0,
    ) -> None:
        self.address = address
        self._connect_timeout = connect_timeout_seconds
        self._keepalive = keepalive_seconds
        self._dead_after = dead_after_seconds
        self._transport: paramiko.Transport | None = None
        self._lock = threading.Lock()

    def run(self, script: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 10.0) -> CommandResult:
        words = quote(["sh", "-c", script, "dbops", *arguments])
        gate = self.address.gate
        command = for_any_shell(gate.command if gate else f"exec {words}")
        if len((words if gate else command).encode()) > COMMAND_LIMIT_BYTES:
            raise Bug("ssh.command_too_long", "Building a command for a host", cause=f"{len(command)} characters")
        answer = (lambda challenge: gate.message(challenge, words, stdin)) if gate else None
        with self._lock:
            exchange = _Exchange(self, command, answer or stdin, timeout_seconds)
            result = exchange.run()
        if gate:
            self._check_root(result, is_root=exchange.is_challenged)
        return result

    def close(self) -> None:
        """Close the connection; the next ``run`` opens a new one. Detached jobs on the host continue."""
        transport, self._transport = self._transport, None
        if transport is not None:
            _close(transport)

    def open_channel(self) -> paramiko.Channel:
        """Return a new channel; reconnect once if the kept connection is dead, because nothing ran on it yet."""
        transport = self._transport
        if transport is not None and transport.is_active():
            try:
                return transport.open_session(timeout=self._connect_timeout)
            except (paramiko.SSHException, EOFError, OSError):
                self.close()
        self._transport = transport = self._connect()
        try:
            return transport.open_session(timeout=self._connect_timeout)
        except (paramiko.SSHException, EOFError, OSError) as error:
            self.close()
            raise _unreachable(self.address.address, self.address.port, error) from None

    def _connect(self) -> paramiko.Transport:
        key = load_private_key(self.address.private_key)
        transport, found = _negotiate(
            self.address.address,
            self.address.port,
            self._connect_timeout,
            self._dead_after,
            pinned=parse_host_key(self.address.host_key) if self.address.host_key else None,
        )
        try:
            self._check_host_key(found)
            transport.auth_publickey(self.address.user, key)
            transport.set_keepalive(self._keepalive)
        except paramiko.AuthenticationException as error:
            _close(transport)
            raise NoAccess(
                "ssh.auth_failed",
                f"Logging in as {self.address.place}",
                cause=str(error),
            ) from None
        except (paramiko.SSHException, EOFError, OSError) as error:
            _close(transport)
            raise _unreachable(self.address.address, self.address.port, error) from None
        except BaseException:
            _close(transport)
            raise
        return transport

    def _check_host_key(self, found: HostKey) -> None:
        operation = f"Checking the host key of {self.address.address}:{self.address.port}"
        if not self.address.host_key:
            raise NoAccess(
                "ssh.host_key_unknown",
                operation,
                cause=f"{found.type} {found.fingerprint}",
            )
        pinned = parse_host_key(self.address.host_key)
        if (pinned.type, pinned.base64) != (found.type, found.base64):
            raise NoAccess(
                "ssh.host_key_changed",
                operation,
                cause=f"{found.type} {found.fingerprint} where {pinned.type} {pinned.fingerprint} was accepted",
            )

    def _check_root(self, result: CommandResult, *, is_root: bool) -> None:
        """Raise ``NoAccess`` if sudo or the gate refused. ``is_root``: a command of root's has answered."""
        operation = f"Becoming root as {self.address.place}"
        if not is_root and (said := _line_of(result.stderr, "sudo: ")):
            raise NoAccess("ssh.sudo_refused", operation, cause=said)
        if result.exit_status == REFUSED_STATUS and (said := _line_of(result.stderr, REFUSED_PREFIX)):
            raise NoAccess("ssh.gate_refused", operation, cause=said)


class _Exchange:
    """One command on one channel. At the deadline, a watchdog closes the connection, which ends all waits on it.

    ``stdin``: of the command, or what to answer to its challenge.
    """

    def __init__(
        self, shell: SshShell, command: str, stdin: bytes | Callable[[str], bytes], timeout_seconds: float
    ) -> None:
        self.shell = shell
        self.command = command
        self.stdin = stdin
        self.timeout_seconds = timeout_seconds
        self.timed_out = threading.Event()
        self.is_challenged = False

    def run(self) -> CommandResult:
        channel = self.shell.open_channel()
        watchdog = threading.Timer(self.timeout_seconds, self._give_up)
        watchdog.daemon = True
        watchdog.start()
        try:
            result = self._talk(channel)
        except (paramiko.SSHException, EOFError, OSError) as error:
            self.shell.close()
            if not self.timed_out.is_set():
                raise _unreachable(self.shell.address.address, self.shell.address.port, error) from None
            result = None
        finally:
            watchdog.cancel()
        if self.timed_out.is_set() or result is None:
            self.shell.close()
            raise Unreachable(
                "ssh.timeout",
                f"Waiting for a command on {self.shell.address.place}",
                cause=f"no answer in {self.timeout_seconds:g} s",
            )
        if result.exit_status is None and (self.shell._transport is None or not self.shell._transport.is_active()):
            self.shell.close()
        return result

    def _give_up(self) -> None:
        self.timed_out.set()
        self.shell.close()

    def _talk(self, channel: paramiko.Channel) -> CommandResult:
        channel.exec_command(self.command)
        stderr, stdout = _Drain(), _Drain()
        reader = threading.Thread(target=stderr.read, args=(channel.recv_stderr,), daemon=True)
        reader.start()
        stdin = self.stdin if isinstance(self.stdin, bytes) else self._answer(channel, self.stdin)
        writer = threading.Thread(target=self._write, args=(channel, stdin), daemon=True)
        writer.start()
        stdout.read(channel.recv)
        reader.join()
        channel.status_event.wait()
        status = channel.exit_status
        channel.close()
        writer.join()
        return CommandResult(None if status == -1 else status, stdout.text(), stderr.text())

    def _answer(self, channel: paramiko.Channel, answer: Callable[[str], bytes]) -> bytes:
        """Wait for the challenge, and return the answer; ``b""`` if the command ended without one."""
        said = b""
        while part := channel.recv(65536):
            said = (said + part)[-OUTPUT_LIMIT_BYTES:]
            if found := CHALLENGE.search(said):
                self.is_challenged = True
                return answer(found[1].decode())
        return b""

    def _write(self, channel: paramiko.Channel, stdin: bytes) -> None:
        try:
            if stdin:
                channel.sendall(stdin)
            channel.shutdown_write()
        except (paramiko.SSHException, EOFError, OSError):
            pass  # the command ended without reading all input; its status and output explain why


class _Drain:
    """Read an output completely but keep only its start, so that a flood neither blocks the host nor fills memory."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._kept = 0
        self._seen = 0

    def read(self, receive: Callable[[int], bytes]) -> None:
        while True:
            try:
                part = receive(65536)
            except (OSError, EOFError):
                return
            if not part:
                return
            self._seen += len(part)
            room = OUTPUT_LIMIT_BYTES - self._kept
            if room > 0:
                self._parts.append(part[:room])
                self._kept += len(part[:room])

    def text(self) -> str:
        text = b"".join(self._parts).decode("utf-8", "replace")
        if self._seen > self._kept:
            text += f"\n[cut: {self._kept} of {self._seen} bytes kept]"
        return text


def load_private_key(text: str) -> paramiko.PKey:
    """Return the key. Raises ``Refused`` (``ssh.bad_key``)."""
    found = "it is not an Ed25519, ECDSA or RSA key"
    for kind in KEY_CLASSES:
        try:
            return kind.from_private_key(io.StringIO(text.strip() + "\n"))
        except paramiko.PasswordRequiredException:
            found = "it has a passphrase"
            break
        except KEY_ERRORS:
            pass  # a key of another type, or not a key
    raise Refused(
        "ssh.bad_key",
        "Reading the private key",
        cause=found,
    )


def check_private_key(text: str) -> str:
    """Return the fingerprint of a private key's public half. Raises ``Refused`` (``ssh.bad_key``)."""
    return fingerprint_of_blob(load_private_key(text).asbytes())


def fetch_host_key(address: str, port: int, timeout_seconds: float = 5.0) -> HostKey:
    """Return a host's key without logging in. Raises ``Unreachable`` (``ssh.unreachable``)."""
    transport, found = _negotiate(address, port, timeout_seconds, timeout_seconds, pinned=None)
    _close(transport)
    return found


def _negotiate(
    address: str, port: int, timeout_seconds: float, dead_after_seconds: float, *, pinned: HostKey | None
) -> tuple[paramiko.Transport, HostKey]:
    """Connect and exchange keys. Offer only the pinned key's type, so that a host with several keys shows that one."""
    transport = _transport(address, port, timeout_seconds, dead_after_seconds)
    if pinned is not None:
        transport.get_security_options().key_types = HOST_KEY_ALGORITHMS[pinned.type]
    deadline = time.monotonic() + timeout_seconds
    try:
        transport.start_client(timeout=timeout_seconds)
        if time.monotonic() >= deadline and not transport.initial_kex_done:  # start_client returns silently on timeout
            raise TimeoutError("no SSH key exchange in time")
        key = transport.get_remote_server_key()
    except IncompatiblePeer as error:
        _close(transport)
        if pinned is None:
            raise _unreachable(address, port, error) from None
        # no key of that type any more: read the current key, so that the refusal can name it
        return _negotiate(address, port, timeout_seconds, dead_after_seconds, pinned=None)
    except (paramiko.SSHException, EOFError, OSError) as error:
        _close(transport)
        raise _unreachable(address, port, error) from None
    return transport, HostKey(key.get_name(), key.get_base64(), fingerprint_of_blob(key.asbytes()))


def _transport(address: str, port: int, timeout_seconds: float, dead_after_seconds: float) -> paramiko.Transport:
    try:
        connection = socket.create_connection((address, port), timeout=timeout_seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(dead_after_seconds * 1000))
        transport = paramiko.Transport(connection, disabled_algorithms={"macs": WEAK_MACS})
    except (OSError, UnicodeError, paramiko.SSHException) as error:
        raise _unreachable(address, port, error) from None
    transport.banner_timeout = timeout_seconds
    transport.handshake_timeout = timeout_seconds
    transport.auth_timeout = timeout_seconds
    transport.daemon = True
    return transport


def _line_of(text: str, prefix: str) -> str:
    return next((line[:200] for line in text.splitlines() if line.startswith(prefix)), "")


def _close(transport: paramiko.Transport) -> None:
    with contextlib.suppress(paramiko.SSHException, EOFError, OSError):  # may be closed already
        transport.close()


def _unreachable(address: str, port: int, error: BaseException) -> Unreachable:
    return Unreachable(
        "ssh.unreachable",
        f"Connecting to {address}:{port} by SSH",
        cause=str(error) or type(error).__name__,
    )
