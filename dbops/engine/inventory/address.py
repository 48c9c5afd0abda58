"""Addresses of inventory sources."""

from dataclasses import dataclass

from dbops.engine.network.addresses import check_characters, is_loopback, split_address
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
        return self.scheme == HTTPS or (self.scheme == HTTP and is_loopback(self.host))


def read_address(text: str) -> SourceAddress:
    """Return the parts of a source's address.

    Private addresses are allowed: these systems are usually internal servers.

    Raises:
        ValueError: it is none; the text says why.
    """
    check_characters(text)
    if text.startswith("file:"):
        return SourceAddress(FILE, path=_file_name(text.removeprefix("file:")))
    if text.partition(":")[0].lower() not in PORTS:
        raise ValueError(phrase("the address does not start with https://, http:// or file:"))
    parts = split_address(text)
    if "@" in parts.netloc or parts.fragment:
        raise ValueError(phrase("the address has a user, a password or a fragment; enter them in their own fields"))
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return SourceAddress(parts.scheme, parts.hostname or "", parts.port or PORTS[parts.scheme], path)


def _file_name(name: str) -> str:
    if not name or name.startswith(".") or "/" in name or "\\" in name:
        raise ValueError(phrase("after file: comes the name of a file, without a directory"))
    return name
