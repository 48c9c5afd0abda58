"""Addresses of inventory sources."""

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from dbops.engine.phrases import phrase

FILE, HTTP, HTTPS = "file", "http", "https"
PORTS = {HTTP: 80, HTTPS: 443}


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """Where a source is: a web address, or with the scheme ``file`` the name of a file in the directory for sources."""

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_file(self) -> bool:
        return self.scheme == FILE

    @property
    def hides_secrets(self) -> bool:
        """Whether others on the network cannot read what is sent there."""
        return self.scheme == HTTPS or (self.scheme == HTTP and _is_loopback(self.host))


def read_address(text: str) -> SourceAddress:
    """Return the parts of a source's address.

    Private addresses are allowed: these systems are usually internal servers.

    Raises:
        ValueError: it is none; the text says why.
    """
    if not text.isascii() or any(sign <= " " or sign == "\x7f" for sign in text):
        raise ValueError(phrase("the address has a space, a control character or a character outside ASCII"))
    if text.startswith("file:"):
        return SourceAddress(FILE, path=_file_name(text.removeprefix("file:")))
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(phrase("the address has an invalid host or port")) from error
    if parts.scheme not in PORTS:
        raise ValueError(phrase("the address does not start with https://, http:// or file:"))
    if not host or port == 0:
        raise ValueError(phrase("the address has no host, or port 0"))
    if "@" in parts.netloc or parts.fragment:
        raise ValueError(phrase("the address has a user, a password or a fragment; enter them in their own fields"))
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return SourceAddress(parts.scheme, host, port or PORTS[parts.scheme], path)


def _file_name(name: str) -> str:
    if not name or name.startswith(".") or "/" in name or "\\" in name:
        raise ValueError(phrase("after file: comes the name of a file, without a directory"))
    return name


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name, which can be looked up as any address
        return False
