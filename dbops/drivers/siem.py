"""Deliver audit entries to a SIEM: syslog over TCP or TLS, or JSON over HTTPS. One connection for each delivery."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse

from dbops.engine.audit.chain import ChainEntry
from dbops.engine.audit.sinks import SinkAddress
from dbops.engine.audit.syslog import framed, json_body, message_of
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.phrases import phrase

#: Seconds for the connection, and for a whole delivery once connected.
CONNECT_SECONDS, DELIVER_SECONDS = 5, 10


class _Rejected(Exception):
    """The receiver answered that it does not take the entries."""


def deliver(entries: list[ChainEntry], to: SinkAddress, *, ca: str = "", token: str = "", host: str = "") -> None:
    """Send entries in order, and return when the receiver has them.

    Syslog has no answer. So dbops ends its side of the connection and waits until the receiver, which has then read
    everything, ends the other one. HTTPS needs an answer 2xx; no redirect is followed.

    Args:
        ca: certificates of the authority as PEM; empty for those of the system.
        token: for the header ``Authorization: Bearer``; HTTPS only.
        host: name of dbops's machine.

    Raises:
        Unreachable: no connection, or it broke or took too long (``audit.sink_unreachable``).
        RemoteFailure: the certificate is wrong (``audit.sink_certificate``), or another answer than 2xx (``audit.sink_rejected``).
    """
    operation = phrase("Sending audit entries {first} to {last}", first=entries[0].sequence, last=entries[-1].sequence)
    is_late = threading.Event()
    try:
        with _connected(to, ca, is_late) as link:
            if to.is_http:
                _post(link, to, token, json_body(entries))
            else:
                _write(link, b"".join(framed(message_of(entry, host)) for entry in entries))
        if is_late.is_set():  # a connection that dbops itself shut down looks like one that the receiver ended
            raise TimeoutError
    except ssl.SSLCertVerificationError as error:
        raise RemoteFailure("audit.sink_certificate", operation, cause=error.verify_message) from error
    except _Rejected as error:
        raise RemoteFailure("audit.sink_rejected", operation, cause=str(error)) from error
    except (OSError, HTTPException, ValueError) as error:
        cause = (
            phrase("the receiver did not take them within {seconds} s", seconds=DELIVER_SECONDS)
            if is_late.is_set()
            else _cause(error)
        )
        raise Unreachable("audit.sink_unreachable", operation, cause=cause) from error


def _context(ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextmanager
def _connected(to: SinkAddress, ca: str, is_late: threading.Event) -> Iterator[socket.socket]:
    """Yield a connection that is shut down after ``DELIVER_SECONDS``, however slowly bytes come."""
    raw = socket.create_connection((to.host, to.port), timeout=CONNECT_SECONDS)

    def end() -> None:
        is_late.set()
        with suppress(OSError):
            raw_end.shutdown(socket.SHUT_RDWR)

    # A second handle: TLS takes the first one over.
    raw_end = raw.dup()
    timer = threading.Timer(DELIVER_SECONDS, end)
    timer.daemon = True
    timer.start()
    link = raw
    try:
        raw.settimeout(DELIVER_SECONDS + 1)
        if to.is_encrypted:
            link = _context(ca).wrap_socket(raw, server_hostname=to.host)
        yield link
    finally:
        timer.cancel()
        link.close()
        raw_end.close()


def _write(link: socket.socket, data: bytes) -> None:
    link.sendall(data)
    if isinstance(link, ssl.SSLSocket):
        # A receiver that ends without TLS's goodbye has read ours before, or resets the connection.
        with suppress(ssl.SSLEOFError, ssl.SSLZeroReturnError):
            link = link.unwrap()
            _end(link)
        return
    _end(link)


def _end(link: socket.socket) -> None:
    link.shutdown(socket.SHUT_WR)
    while link.recv(4096):
        pass


def _post(link: socket.socket, to: SinkAddress, token: str, body: bytes) -> None:
    name = f"[{to.host}]" if ":" in to.host else to.host
    lines = [
        f"POST {to.path} HTTP/1.1",
        f"Host: {name}:{to.port}",
        "User-Agent: dbops",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *([f"Authorization: Bearer {token}"] if token else []),
        "Connection: close",
    ]
    link.sendall("\r\n".join([*lines, "", ""]).encode("ascii") + body)
    answer = HTTPResponse(link, method="POST")
    try:
        answer.begin()
        if not 200 <= answer.status < 300:
            raise _Rejected(f"the receiver answered HTTP {answer.status}")
    finally:
        answer.close()


def _cause(error: Exception) -> str:
    """Return a short cause without anything that the receiver sent."""
    if isinstance(error, HTTPException):
        return phrase("the receiver's answer is not HTTP")
    if isinstance(error, ssl.SSLError):
        return phrase("TLS failed: {reason}", reason=error.reason or phrase("the connection ended"))
    if isinstance(error, TimeoutError):
        return phrase("no answer in time")
    return (error.strerror if isinstance(error, OSError) else "") or phrase("the connection ended")
