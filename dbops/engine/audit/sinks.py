"""Addresses of audit sinks, and when a failed delivery is tried again."""

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

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
    if not text.isascii() or any(sign <= " " or sign == "\x7f" for sign in text):
        raise ValueError(phrase("the address has a space, a control character or a character outside ASCII"))
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(phrase("the address has an invalid host or port")) from error
    if parts.scheme not in PORTS:
        raise ValueError(
            phrase("the address does not start with one of {schemes}", schemes=", ".join(f"{one}://" for one in PORTS))
        )
    if not host or port == 0:
        raise ValueError(phrase("the address has no host, or port 0"))
    if "@" in parts.netloc or parts.fragment:
        raise ValueError(phrase("the address has a user, a password or a fragment; enter a token in its own field"))
    if parts.scheme == HTTP and not _is_loopback(host):
        raise ValueError(phrase("http:// is allowed only to this machine (127.0.0.1 or ::1)"))
    is_http = parts.scheme in (HTTPS, HTTP)
    if not is_http and (parts.path.strip("/") or parts.query):
        raise ValueError(phrase("a syslog address has a host and a port, and no path"))
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "") if is_http else ""
    return SinkAddress(parts.scheme, host, port or PORTS[parts.scheme], path)


def wait_after(failures: int) -> int:
    """Return how many seconds to wait after so many failures in a row: twice as long each time."""
    return min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(failures - 1, 10)) if failures else 0


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name, which can be looked up as any address
        return False
