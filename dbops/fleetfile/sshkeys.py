"""SSH keys in the inventory: the private keys with which the dashboard logs in, and the host keys that a person accepts."""

from dbops.drivers.ssh import check_private_key, fetch_host_key
from dbops.engine.errors import Refused
from dbops.engine.hosts.host_keys import HostKey, parse_host_key

FETCH_TIMEOUT_SECONDS = 5.0


def tidy_private_key(text: str) -> str:
    """Return the key with the line ends that it had before a browser or an editor changed them."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join(lines) + "\n" if any(lines) else ""


def private_key_problem(text: str) -> str:
    """Return what is wrong with a private key, in words and without the key; empty when it can be used."""
    try:
        check_private_key(text)
    except Refused as error:
        return f"this is no private key that can be used: {error.cause}. {error.next_step}."
    return ""


def host_key_problem(text: str) -> str:
    """Return what is wrong with a line ``type base64 [comment]``; empty when it can be pinned."""
    if len(text.splitlines()) > 1:
        return "a host key is one line"
    try:
        parse_host_key(text)
    except Refused as error:
        return f"this is no public host key (ssh-ed25519 AAAA...): {error.cause}"
    return ""


def host_key_line(text: str) -> str:
    """Return ``type base64`` without comment, as keys are pinned and compared. Raises ``Refused`` (``ssh.bad_host_key``)."""
    return parse_host_key(text).line


def fingerprint_or_empty(text: str) -> str:
    """Return the fingerprint of a pinned key; empty for none."""
    if not text:
        return ""
    try:
        return parse_host_key(text).fingerprint
    except Refused:
        return "a key that cannot be read"


def presented_host_key(address: str, port: int) -> HostKey:
    """Return the key that a host shows now, without logging in. Raises ``Unreachable`` (``ssh.unreachable``)."""
    return fetch_host_key(address, port, timeout_seconds=FETCH_TIMEOUT_SECONDS)
