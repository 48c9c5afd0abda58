"""Check private keys and host keys of the inventory."""

from dbops.drivers.ssh_jumps import fetch_host_certificate, fetch_host_key
from dbops.drivers.ssh_transport import SshAddress, check_private_key
from dbops.engine.errors import Refused
from dbops.engine.hosts.host_keys import HostKey, parse_host_key
from dbops.engine.phrases import phrase

FETCH_TIMEOUT_SECONDS = 5.0


def tidy_private_key(text: str) -> str:
    """Return the key with normalized line ends, which browsers and editors change."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join(lines) + "\n" if any(lines) else ""


def private_key_problem(text: str) -> str:
    """Return the problem of a private key, without the key; empty if valid."""
    try:
        check_private_key(text)
    except Refused as error:
        return phrase(
            "this is not a usable private key: {cause}. {next_step}.",
            cause=error.cause,
            next_step=phrase(error.next_step),
        )
    return ""


def host_key_problem(text: str) -> str:
    """Return the problem of a line ``type base64 [comment]``; empty if valid."""
    if len(text.splitlines()) > 1:
        return phrase("a host key must be one line")
    try:
        parse_host_key(text)
    except Refused as error:
        return phrase("this is not a public host key (ssh-ed25519 AAAA...): {cause}", cause=error.cause)
    return ""


def host_key_line(text: str) -> str:
    """Return ``type base64`` without comment, the form for comparison. Raises ``Refused`` (``ssh.bad_host_key``)."""
    return parse_host_key(text).line


def fingerprint_or_empty(text: str) -> str:
    """Return the fingerprint of a pinned key; empty without a key."""
    if not text:
        return ""
    try:
        return parse_host_key(text).fingerprint
    except Refused:
        return phrase("an unreadable key")


def presented_host_key(address: str, port: int, jump: SshAddress | None) -> HostKey:
    """Return a host's current key without logging in, through its jump host if it has one. Raises as ``fetch_host_key``."""
    return fetch_host_key(address, port, timeout_seconds=FETCH_TIMEOUT_SECONDS, jump=jump)


def presented_host_certificate(address: str, port: int, jump: SshAddress | None) -> str:
    """Return the certificate of a host's key, ``""`` without one, without logging in. Raises as ``fetch_host_certificate``."""
    return fetch_host_certificate(address, port, timeout_seconds=FETCH_TIMEOUT_SECONDS, jump=jump)
