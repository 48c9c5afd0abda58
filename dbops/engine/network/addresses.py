"""Addresses that people enter: of audit sinks, inventory sources and notification channels."""

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from dbops.engine.phrases import phrase


def split_address(text: str, schemes: Collection[str] = ()) -> SplitResult:
    """Return the parts of an address, whose host and port are valid.

    Args:
        schemes: those that it may start with; by default any.

    Raises:
        ValueError: it is none; the text says why, without a part of the address.
    """
    check_characters(text)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(phrase("the address has an invalid host or port")) from error
    if schemes and parts.scheme not in schemes:
        raise ValueError(other_scheme(schemes))
    if not host or port == 0:
        raise ValueError(phrase("the address has no host, or port 0"))
    return parts


def check_characters(text: str) -> None:
    """Raise ``ValueError`` if an address has a character that programs read in different ways."""
    if not text.isascii() or any(sign <= " " or sign in "\x7f\\" for sign in text):
        raise ValueError(
            phrase("the address has a space, a backslash, a control character or a character outside ASCII")
        )


def other_scheme(schemes: Collection[str]) -> str:
    """Return that an address starts with none of ``schemes``."""
    return phrase("the address does not start with one of {schemes}", schemes=", ".join(f"{one}://" for one in schemes))


def is_ip_address(host: str) -> bool:
    """Whether a host is an address, and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a host is this machine. A name is not: it can be looked up as any address."""
    return is_ip_address(host) and ip_address(host).is_loopback
