"""Addresses of audit sinks, and when a failed delivery is tried again."""

from dataclasses import dataclass

from dbops.engine.network.addresses import is_loopback, split_address
from dbops.engine.phrases import phrase

SYSLOG_TCP, SYSLOG_TLS, HTTPS, HTTP = "syslog+tcp", "syslog+tls", "https", "http"
PORTS = {SYSLOG_TCP: 514, SYSLOG_TLS: 6514, HTTPS: 443, HTTP: 80}
ENCRYPTED = frozenset({SYSLOG_TLS, HTTPS})
#: Wait after the first failed delivery, and the longest one, in seconds.
FIRST_WAIT, LONGEST_WAIT = 5, 300


@dataclass(frozen=True, slots=True)
class SinkAddress:
    """Where a sink is: one of the schemes, host, port, and for HTTP the path with its query."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def is_http(self) -> bool:
        return self.scheme in (HTTPS, HTTP)

    @property
    def is_encrypted(self) -> bool:
        return self.scheme in ENCRYPTED


def read_address(text: str) -> SinkAddress:
    """Return the parts of a sink's address.

    Private addresses are allowed: a SIEM is usually an internal server.

    Raises:
        ValueError: it is none; the text says why.
    """
    parts = split_address(text, PORTS)
    host = parts.hostname or ""
    if "@" in parts.netloc or parts.fragment:
        raise ValueError(phrase("the address has a user, a password or a fragment; enter a token in its own field"))
    if parts.scheme == HTTP and not is_loopback(host):
        raise ValueError(phrase("http:// is allowed only to this machine (127.0.0.1 or ::1)"))
    is_http = parts.scheme in (HTTPS, HTTP)
    if not is_http and (parts.path.strip("/") or parts.query):
        raise ValueError(phrase("a syslog address has a host and a port, and no path"))
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "") if is_http else ""
    return SinkAddress(parts.scheme, host, parts.port or PORTS[parts.scheme], path)
