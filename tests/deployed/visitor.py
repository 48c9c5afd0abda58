"""A browser's requests without a browser: cookies, forms, and an address of its own on loopback."""

import http.client
import re
import socket
import ssl
from collections.abc import Iterator
from html import unescape
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

from tests.stack import OPERATOR, OPERATOR_PASSWORD

from .proxies import HOST

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
#: What a browser loads, or requests on a click.
ADDRESS = re.compile(r'\b(?:href|src|action|formaction|hx-(?:get|post)|sse-connect|data-[\w-]+)="(/[^"]*)"')


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers = response.status, response.headers
        self.text = response.read().decode()

    @property
    def cause(self) -> str:
        """Why a form was rejected."""
        return "".join(re.findall(r'data-cause="([^"]*)"', self.text))

    @property
    def addresses(self) -> set[str]:
        """The addresses on this host that the page names."""
        return {unescape(found) for found in ADDRESS.findall(self.text)}


class Visitor:
    """One person at one address. ``address``: of loopback, as the proxy sees it."""

    def __init__(self, port: int, certificate: Path | None, address: str, *, authority: str = "") -> None:
        self.port, self.certificate, self.address = port, certificate, address
        self.authority = authority or f"{HOST}:{port}"
        self.cookies: dict[str, str] = {}
        self.set: SimpleCookie = SimpleCookie()

    @property
    def origin(self) -> str:
        return f"{'https' if self.certificate else 'http'}://{self.authority}"

    def get(self, path: str, **headers: str) -> Answer:
        return self._answer("GET", path, "", headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        headers = {"Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded", **headers}
        return self._answer("POST", path, urlencode(fields), headers)

    def log_in(self, path: str, **headers: str) -> Answer:
        """Send the login form of this page, whatever the page's status is."""
        token = TOKEN.findall(self.get(path).text)
        fields = {"username": OPERATOR, "password": OPERATOR_PASSWORD, "csrfmiddlewaretoken": token[0] if token else ""}
        return self.post(path, fields, **headers)

    def events(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield the events of a stream with name and data as they arrive; fail where one takes ten seconds."""
        connection = self._connection(10)
        try:
            connection.request("GET", path, headers=self._headers({}))
            response = connection.getresponse()
            assert response.status == 200
            name, data = "", list[str]()
            for line in response:
                text = line.decode().rstrip("\n")
                kind, _, value = text.partition(": ")
                if kind == "event":
                    name = value
                elif kind == "data":
                    data.append(value)
                elif not text and name:
                    yield name, "\n".join(data)
                    name, data = "", []
        finally:
            connection.close()

    def _answer(self, method: str, path: str, body: str, headers: dict[str, str]) -> Answer:
        connection = self._connection(30)
        try:
            connection.request(method, path, body, self._headers(headers))
            answer = Answer(connection.getresponse())
        finally:
            connection.close()
        for text in answer.headers.get_all("Set-Cookie", []):
            self.set.load(text)
        self.cookies |= {name: morsel.value for name, morsel in self.set.items()}
        return answer

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {
            "Host": self.authority,
            "Cookie": cookies,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }

    def _connection(self, timeout_seconds: float) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=timeout_seconds)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout_seconds, source_address=(self.address, 0))
        if self.certificate:
            context = ssl.create_default_context(cafile=str(self.certificate))
            connection.sock = context.wrap_socket(plain, server_hostname=HOST)
        else:
            connection.sock = plain
        return connection
