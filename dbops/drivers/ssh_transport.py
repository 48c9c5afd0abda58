"""SSH transports: TCP or a channel, key exchange, pinned host key, login. With ``ssh`` and ``ssh_jumps``, all that imports paramiko."""

import base64
import contextlib
import io
import logging
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import paramiko
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import IncompatiblePeer

from dbops.drivers.gate import Gate
from dbops.engine.errors import NoAccess, Refused, Unreachable
from dbops.engine.hosts.host_keys import (
    HOST_CERTIFICATE_ALGORITHMS,
    HOST_KEY_ALGORITHMS,
    HostKey,
    fingerprint_of_blob,
    parse_host_key,
)
from dbops.engine.phrases import phrase

# paramiko logs tracebacks of its own thread; the caller gets relevant errors as exceptions
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

WEAK_MACS = ["hmac-md5", "hmac-md5-96", "hmac-sha1", "hmac-sha1-96"]
KEY_ERRORS = (paramiko.SSHException, UnknownKeyType, ValueError, IndexError, TypeError, struct.error)
KEY_CLASSES: tuple[type[paramiko.PKey], ...] = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)
#: What a lost connection raises.
LOST = (paramiko.SSHException, EOFError, OSError)


class HostProof(Protocol):
    """What proves a host by its certificate, whatever its key."""

    def check(self, certificate: str) -> None:
        """Raise ``Refused`` if a certificate, ``""`` for none, proves nothing."""
        ...


@dataclass(frozen=True, slots=True)
class SshAddress:
    """Address and credentials.

    Args:
        host_key: the pinned ``type base64``, ``""`` if none was accepted.
        proof: checks the host's certificate instead of the pinned key.
        gate: runs commands as root through sudo; ``None``: they run as ``user``.
        jump: the jump host that opens the connection; ``None``: the dashboard connects itself.
        name: of a jump host in the inventory, for errors.
        certificate: of the key, the line of its file; ``""``: the key alone logs in.
    """

    address: str
    port: int
    user: str
    private_key: str = field(repr=False)
    host_key: str = ""
    gate: Gate | None = None
    jump: "SshAddress | None" = None
    name: str = ""
    certificate: str = ""
    proof: HostProof | None = None

    @property
    def place(self) -> str:
        return f"{self.user}@{self.address}:{self.port}"

    @property
    def shown(self) -> str:
        """Return the address, and the name of a jump host, for errors."""
        return f"the jump host {self.name} ({self.address}:{self.port})" if self.name else f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a connection.

    Args:
        connect_seconds: for each of TCP, banner with key exchange, and login.
        keepalive_seconds: between keepalive messages on an idle connection.
        dead_after_seconds: time without acknowledgment of sent data until the kernel closes the connection.
    """

    connect_seconds: float = 5.0
    keepalive_seconds: int = 5
    dead_after_seconds: float = 10.0


def log_in(address: SshAddress, dial: Callable[[], Any], patience: Patience) -> paramiko.Transport:
    """Return a connection that has the pinned host key and is logged in.

    Args:
        dial: opens the socket or channel to the host.

    Raises:
        NoAccess: ``ssh.host_key_unknown``, ``ssh.host_key_changed``, ``ssh.host_not_proven``, ``ssh.auth_failed``.
        Unreachable: ``ssh.unreachable``.
        Refused: the private or the pinned key is not valid.
    """
    key = load_private_key(address.private_key)
    if address.certificate:
        key.load_certificate(address.certificate)
    pinned = parse_host_key(address.host_key) if address.host_key else None
    try:
        transport, found = negotiate(address, dial, patience.connect_seconds, pinned=pinned, proof=address.proof)
    except IncompatiblePeer as error:
        raise _not_proven(address, phrase("the host presents no certificate: {error}", error=error)) from None
    try:
        _check_host_key(address, pinned, found, transport)
        transport.auth_publickey(address.user, key)
        transport.set_keepalive(patience.keepalive_seconds)
    except paramiko.AuthenticationException as error:
        close(transport)
        who = phrase(" on {address}", address=address.shown) if address.name else ""
        raise NoAccess(
            "ssh.auth_failed", phrase("Logging in as {address}{who}", address=address.place, who=who), cause=str(error)
        ) from None
    except LOST as error:
        close(transport)
        raise unreachable(address, error) from None
    except BaseException:
        close(transport)
        raise
    return transport


def _check_host_key(address: SshAddress, pinned: HostKey | None, found: HostKey, transport: paramiko.Transport) -> None:
    operation = phrase("Checking the host key of {address}", address=address.shown)
    if pinned is None:
        raise NoAccess("ssh.host_key_unknown", operation, cause=f"{found.type} {found.fingerprint}")
    if address.proof is not None:
        try:
            address.proof.check(certificate_line(transport))
        except Refused as error:
            raise _not_proven(address, error.cause) from None
    elif (pinned.type, pinned.base64) != (found.type, found.base64):
        raise NoAccess(
            "ssh.host_key_changed",
            operation,
            cause=phrase(
                "{type} {fingerprint} where {accepted_type} {accepted_fingerprint} was accepted",
                type=found.type,
                fingerprint=found.fingerprint,
                accepted_type=pinned.type,
                accepted_fingerprint=pinned.fingerprint,
            ),
        )


def _not_proven(address: SshAddress, cause: str) -> NoAccess:
    return NoAccess(
        "ssh.host_not_proven", phrase("Checking the host certificate of {address}", address=address.shown), cause=cause
    )


def negotiate(
    address: SshAddress,
    dial: Callable[[], Any],
    timeout_seconds: float,
    *,
    pinned: HostKey | None,
    proof: HostProof | None = None,
) -> tuple[paramiko.Transport, HostKey]:
    """Exchange keys. Offer only the pinned key's type, so that a host with several keys shows that one.

    With ``proof``, offer certificates alone. There is no second try with a plain key: raises ``IncompatiblePeer``.
    """
    transport = _transport(address, dial, timeout_seconds)
    if proof is not None:
        transport.get_security_options().key_types = HOST_CERTIFICATE_ALGORITHMS
    elif pinned is not None:
        transport.get_security_options().key_types = HOST_KEY_ALGORITHMS[pinned.type]
    deadline = time.monotonic() + timeout_seconds
    try:
        transport.start_client(timeout=timeout_seconds)
        if time.monotonic() >= deadline and not transport.initial_kex_done:  # start_client returns silently on timeout
            raise TimeoutError("no SSH key exchange in time")
        key = transport.get_remote_server_key()
    except IncompatiblePeer as error:
        close(transport)
        if proof is not None:
            raise
        if pinned is None:
            raise unreachable(address, error) from None
        # no key of that type any more: read the current key, so that the refusal can name it
        return negotiate(address, dial, timeout_seconds, pinned=None)
    except LOST as error:
        close(transport)
        raise unreachable(address, error) from None
    return transport, HostKey(key.get_name(), key.get_base64(), fingerprint_of_blob(key.asbytes()))


def presented_certificate(address: SshAddress, dial: Callable[[], Any], timeout_seconds: float) -> str:
    """Return the certificate of a host's key, as a line; ``""`` if the host has none. Nothing of it is checked, but that the host has
    the key. Raises ``Unreachable`` (``ssh.unreachable``).
    """
    transport = _transport(address, dial, timeout_seconds)
    transport.get_security_options().key_types = HOST_CERTIFICATE_ALGORITHMS
    try:
        transport.start_client(timeout=timeout_seconds)
        return certificate_line(transport)
    except IncompatiblePeer:
        return ""
    except LOST as error:
        raise unreachable(address, error) from None
    finally:
        close(transport)


def certificate_line(transport: paramiko.Transport) -> str:
    """Return the certificate that the host presented, as a line; ``""`` without one.

    A host that does not keep to what was agreed may show a plain key.
    """
    found = transport.get_remote_server_key().public_blob
    return f"{found.key_type} {base64.b64encode(found.key_blob).decode()}" if found else ""


def _transport(address: SshAddress, dial: Callable[[], Any], timeout_seconds: float) -> paramiko.Transport:
    try:
        transport = paramiko.Transport(dial(), disabled_algorithms={"macs": WEAK_MACS})
    except (OSError, UnicodeError, paramiko.SSHException) as error:
        raise unreachable(address, error) from None
    transport.banner_timeout = timeout_seconds
    transport.handshake_timeout = timeout_seconds
    transport.auth_timeout = timeout_seconds
    transport.daemon = True
    return transport


def tcp(address: SshAddress, patience: Patience) -> socket.socket:
    """Return a TCP connection to an address. Raises ``OSError``, ``UnicodeError``."""
    connection = socket.create_connection((address.address, address.port), timeout=patience.connect_seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(patience.dead_after_seconds * 1000))
    return connection


def load_private_key(text: str) -> paramiko.PKey:
    """Return the key. Raises ``Refused`` (``ssh.bad_key``)."""
    found = phrase("it is not an Ed25519, ECDSA or RSA key")
    for kind in KEY_CLASSES:
        try:
            return kind.from_private_key(io.StringIO(text.strip() + "\n"))
        except paramiko.PasswordRequiredException:
            found = phrase("it has a passphrase")
            break
        except KEY_ERRORS:
            pass  # a key of another type, or not a key
    raise Refused(
        "ssh.bad_key",
        phrase("Reading the private key"),
        cause=found,
    )


def check_private_key(text: str) -> str:
    """Return the fingerprint of a private key's public half. Raises ``Refused`` (``ssh.bad_key``)."""
    return fingerprint_of_blob(load_private_key(text).asbytes())


def close(transport: paramiko.Transport) -> None:
    with contextlib.suppress(*LOST):  # may be closed already
        transport.close()


def unreachable(address: SshAddress, error: BaseException) -> Unreachable:
    return Unreachable(
        "ssh.unreachable",
        phrase("Connecting to {address} by SSH", address=address.shown),
        cause=str(error) or type(error).__name__,
    )
