"""Read what a source lists: a file, a document on a web server, orchestrator, or replication-manager."""

import base64
import json
import os
import ssl
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.inventory.address import SourceAddress
from dbops.engine.inventory.readers import SourceKind
from dbops.engine.phrases import phrase

#: Seconds for one answer, and for all of them.
ANSWER_SECONDS, TOTAL_SECONDS = 10, 25
MOST_BYTES = 16 * 1024 * 1024
MOST_CLUSTERS = 500


@dataclass(frozen=True, slots=True)
class SourceLogin:
    """How to log in: user and password, or a secret alone, which is a bearer token. ``ca``: authorities as PEM; empty: the system's."""

    user: str = ""
    secret: str = field(default="", repr=False)
    ca: str = ""

    def headers(self) -> dict[str, str]:
        if self.user:
            pair = base64.b64encode(f"{self.user}:{self.secret}".encode()).decode("ascii")
            return {"Authorization": f"Basic {pair}"}
        return {"Authorization": f"Bearer {self.secret}"} if self.secret else {}


def fetch(kind: SourceKind, address: SourceAddress, login: SourceLogin, *, folder: str = "") -> str:
    """Return the document of a source, or the joined answers of its API.

    Args:
        folder: directory of the files; empty: files are not read.

    Raises:
        Unreachable: no connection, or it broke or took too long (``inventory_source.unreachable``).
        RemoteFailure: the certificate is wrong (``inventory_source.certificate``), or another answer than 200
            (``inventory_source.rejected``), or the answer is too long or no text (``inventory_source.unreadable``), or the file cannot
            be read (``inventory_source.file``).
    """
    if address.is_file:
        return _read_file(folder, address.path)
    link = _Link(address, login.ca)
    if kind is SourceKind.ORCHESTRATOR:
        return link.get(f"{address.path.rstrip('/')}/api/all-instances", login.headers())
    if kind is SourceKind.REPLICATION_MANAGER:
        return _replication_manager(link, address.path.rstrip("/"), login)
    return link.get(address.path or "/", login.headers())


def _replication_manager(link: "_Link", base: str, login: SourceLogin) -> str:
    """Log in for a token, and read the servers of each cluster that the account may see."""
    said = link.ask("POST", f"{base}/api/login", {}, {"username": login.user, "password": login.secret})
    token = _json(said, "token", dict)
    headers = {"Authorization": f"Bearer {token['token']}"}
    clusters = _json(link.get(f"{base}/api/clusters", headers), "clusters", list)
    names = [one["name"] for one in clusters if isinstance(one, dict) and isinstance(one.get("name"), str)]
    if len(names) > MOST_CLUSTERS:
        raise _unreadable(phrase("it has more than {most} clusters", most=MOST_CLUSTERS))
    paths = {name: f"{base}/api/clusters/{quote(name, safe='')}/topology/servers" for name in names}
    found = {name: _json(link.get(path, headers), "servers", list) for name, path in paths.items()}
    return json.dumps(found)


def _json(text: str, what: str, kind: type[Any]) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(phrase("the answer about {what} is not JSON", what=what)) from error
    if not isinstance(found, kind) or (kind is dict and not isinstance(found.get(what), str)):
        raise _unreadable(phrase("the answer about {what} is of another kind", what=what))
    return found


class _Link:
    """Requests to one server, with a limit of time and bytes for all. No redirect is followed."""

    def __init__(self, address: SourceAddress, ca: str) -> None:
        self.address = address
        self.context: ssl.SSLContext | None = None
        if address.scheme == "https":
            self.context = ssl.create_default_context(cadata=ca or None)
            self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.until = time.monotonic() + TOTAL_SECONDS
        self.left = MOST_BYTES

    def get(self, path: str, headers: Mapping[str, str]) -> str:
        return self.ask("GET", path, headers)

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: object = None) -> str:
        try:
            found = self._ask(method, path, headers, body)
        except ssl.SSLCertVerificationError as error:
            raise RemoteFailure("inventory_source.certificate", OPERATION, cause=error.verify_message) from error
        except (OSError, HTTPException, ValueError) as error:
            raise Unreachable("inventory_source.unreachable", OPERATION, cause=_cause(error)) from error
        try:
            return found.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _unreadable(phrase("the answer is not UTF-8")) from error

    def _ask(self, method: str, path: str, headers: Mapping[str, str], body: object) -> bytes:
        place, seconds = (self.address.host, self.address.port), min(ANSWER_SECONDS, self.until - time.monotonic())
        if seconds <= 0:
            raise TimeoutError
        link = (
            HTTPSConnection(*place, timeout=seconds, context=self.context)
            if self.context
            else HTTPConnection(*place, timeout=seconds)
        )
        try:
            data = None if body is None else json.dumps(body).encode()
            kind = {"Content-Type": "application/json"} if data else {}
            link.request(method, path, data, {**headers, **kind, "Accept": "*/*", "User-Agent": "dbops"})
            answer = link.getresponse()
            if answer.status != 200:
                raise RemoteFailure(
                    "inventory_source.rejected",
                    OPERATION,
                    cause=phrase("it answered HTTP {status}", status=answer.status),
                )
            return self._body(answer)
        finally:
            link.close()

    def _body(self, answer: Any) -> bytes:
        found = bytearray()
        while data := answer.read1(65536):
            found += data
            self.left -= len(data)
            if self.left < 0:
                raise _unreadable(phrase("it sends more than {most} bytes", most=f"{MOST_BYTES:,}"))
            if time.monotonic() > self.until:
                raise TimeoutError
        if answer.length:  # http.client does not notice an end before the announced length here
            raise HTTPException
        return bytes(found)


def _read_file(folder: str, name: str) -> str:
    """Return the text of a file in the directory. A link is not followed: it could lead to a secret of dbops."""
    if not folder:
        raise RemoteFailure("inventory_source.file", OPERATION, cause=phrase("DBOPS_INVENTORY_DIR is not set"))
    try:
        with open(os.open(Path(folder) / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(0, phrase("it is no file"))
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise _unreadable(phrase("it is longer than {most} bytes", most=f"{MOST_BYTES:,}"))
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(phrase("the file is not UTF-8")) from error
    except OSError as error:
        raise RemoteFailure(
            "inventory_source.file", OPERATION, cause=error.strerror or phrase("it cannot be read")
        ) from error


OPERATION = phrase("Reading an inventory source")


def _unreadable(cause: str) -> RemoteFailure:
    return RemoteFailure("inventory_source.unreadable", OPERATION, cause=cause)


def _cause(error: Exception) -> str:
    """Return a short cause without anything that the source sent."""
    if isinstance(error, HTTPException):
        return phrase("the answer is not HTTP")
    if isinstance(error, ssl.SSLError):
        return phrase("TLS failed: {reason}", reason=error.reason or phrase("the connection ended"))
    if isinstance(error, TimeoutError):
        return phrase("no answer in time")
    return (error.strerror if isinstance(error, OSError) else "") or phrase("the connection ended")
