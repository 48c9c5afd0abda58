"""HTTP to dbops: a verified connection, a token that appears nowhere else, and requests that can be repeated."""

import http.client
import json
import os
import ssl
import stat
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from dbops_client import __version__

HERE = ("localhost", "127.0.0.1", "::1")
TIMEOUT_SECONDS = 30.0
#: Seconds before each repeat of a request whose answer did not arrive.
PAUSES = (1.0, 2.0, 4.0)
IN_PROGRESS = "idempotency.in_progress"


class Refused(Exception):
    """dbops refused the request, or the client did before it was sent. ``error`` is the problem document."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("code", ""))
        self.error = error

    def __str__(self) -> str:
        parts = [self.error.get(name, "") for name in ("detail", "state", "next_step")]
        more = [f"{one['field']}: {one['message']}." for one in self.error.get("errors", [])]
        return f"[{self.error.get('code', '')}] " + " ".join(part for part in [*parts, *more] if part)


class NoAnswer(Exception):
    """dbops did not answer. What it did is unknown."""


def misused(detail: str) -> Refused:
    """Return a refusal of the client itself."""
    return Refused({"code": "client.usage", "detail": detail})


def read_token(path: str) -> str:
    """Return the token from a file that only its owner can read, or from the environment."""
    chosen = Path(path or os.environ.get("DBOPS_TOKEN_FILE", "") or "~/.config/dbops/token").expanduser()
    if not chosen.exists() and not path and os.environ.get("DBOPS_TOKEN"):
        return os.environ["DBOPS_TOKEN"].strip()
    try:
        mode = chosen.stat().st_mode
        text = chosen.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise misused(f"The token file {chosen} cannot be read: {error}.") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise misused(f"Others may read the token file {chosen}. Run: chmod 600 {chosen}")
    if not text or not text.isprintable() or " " in text:
        raise misused(f"The token file {chosen} has no token.")
    return text


class Dbops:
    """One dbops, as one token sees it."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise misused("Name dbops with --url or DBOPS_URL, for example https://dbops.example.")
        if parts.scheme == "http" and parts.hostname not in HERE:
            raise misused("The address must begin with https://: the token would be sent in clear.")
        self.host, self.port, self.is_tls = parts.hostname, parts.port, parts.scheme == "https"
        self.base = parts.path.rstrip("/") + "/api/v1"
        self._token = token

    def get(self, address: str, **asked: Any) -> Any:
        """Return what an address answers. Repeated if no answer arrives."""
        given = {name: value for name, value in asked.items() if value not in (None, "")}
        return self._repeated("GET", address + (f"?{urlencode(given)}" if given else ""), None, {})

    def every(self, address: str, **asked: Any) -> Any:
        """Yield the objects of all pages of a list."""
        cursor: str | None = None
        while True:
            page = self.get(address, cursor=cursor, **asked)
            yield from page["items"]
            cursor = page["next"]
            if cursor is None:
                return

    def post(self, address: str, given: dict[str, Any]) -> Any:
        """Return the answer to a request that changes something, which is done once, however often it is sent."""
        return self._repeated("POST", address, given, {"Idempotency-Key": uuid.uuid4().hex})

    def open(self, address: str, headers: dict[str, str], timeout: float) -> http.client.HTTPResponse:
        """Return a stream; the caller closes it. Raises as ``get``."""
        return self._send("GET", address, None, headers, timeout)

    def _repeated(self, method: str, address: str, given: dict[str, Any] | None, headers: dict[str, str]) -> Any:
        for pause in (*PAUSES, None):
            try:
                answer = self._send(method, address, given, headers, TIMEOUT_SECONDS)
                try:
                    return json.loads(answer.read())
                finally:
                    answer.close()
            except (NoAnswer, OSError, http.client.HTTPException, ValueError) as error:
                if pause is None:
                    raise NoAnswer(str(error) or type(error).__name__) from None
            except Refused as refused:
                if pause is None or refused.error.get("code") != IN_PROGRESS:
                    raise
            time.sleep(pause or 0)
        raise AssertionError("the last attempt returns or raises")

    def _send(
        self, method: str, address: str, given: dict[str, Any] | None, headers: dict[str, str], timeout: float
    ) -> http.client.HTTPResponse:
        line: http.client.HTTPConnection
        if self.is_tls:
            context = ssl.create_default_context()  # verifies certificate and name
            line = http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=context)
        else:
            line = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        sent = {"Authorization": f"Bearer {self._token}", "User-Agent": f"dbops-client/{__version__}", **headers}
        body = None
        if given is not None:
            body, sent["Content-Type"] = json.dumps(given).encode(), "application/json"
        try:
            line.request(method, self.base + address, body, sent)
            answer = line.getresponse()
        except ssl.SSLCertVerificationError as error:
            raise misused(f"The certificate of {self.host} is not valid: {error.verify_message}.") from None
        except (OSError, http.client.HTTPException) as error:
            line.close()
            raise NoAnswer(str(error) or type(error).__name__) from None
        if answer.status < 300:
            return answer
        raise _error(answer)


def _error(answer: http.client.HTTPResponse) -> Exception:
    """Return the error of an answer: a refusal if dbops says so, else no answer of dbops (a proxy, a process that ends)."""
    try:
        found = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException):
        found = None
    finally:
        answer.close()
    if answer.status < 500 and isinstance(found, dict) and "code" in found:
        return Refused(found)
    return NoAnswer(f"HTTP {answer.status}")
