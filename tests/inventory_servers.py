"""Systems that list servers, on this machine: a web server whose answers a test sets."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAME = "127.0.0.1"


class Listed:
    """What the server answers, by path, and what it was asked: path and ``Authorization``."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[str, str]] = []
        self.address = ""
        self.login = ("repman", "s3cret")
        #: Send this many bytes fewer than announced, and wait so long before each byte.
        self.cut, self.drip_seconds = 0, 0.0

    def say(self, path: str, content: Any, status: int = 200) -> None:
        self.answers[path] = (status, content if isinstance(content, bytes) else json.dumps(content).encode())

    def say_replication_manager(self, **clusters: list[dict[str, str]]) -> None:
        """Answer as replication-manager: a token for the account, and the rest for this token alone."""
        self.say("/api/login", {"token": "jwt"})
        self.say("/api/clusters", [{"name": name} for name in clusters])
        for name, rows in clusters.items():
            self.say(f"/api/clusters/{name}/topology/servers", rows)


@contextmanager
def running_source(certificates: Path | None = None) -> Iterator[Listed]:
    """Run the server, with TLS if there is a folder with ``cert.pem`` and ``key.pem``."""
    listed = Listed()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            listed.asked.append((self.path, self.headers.get("Authorization", "")))
            status, body = listed.answers.get(self.path, (404, b""))
            self._answer(status, body)

        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            is_known = (given["username"], given["password"]) == listed.login
            self._answer(*(listed.answers.get(self.path, (404, b"")) if is_known else (401, b"")))

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if not listed.drip_seconds:
                self.wfile.write(body[: len(body) - listed.cut])
                return
            for byte in body:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(listed.drip_seconds)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer((NAME, 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if certificates:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    listed.address = f"{'https' if certificates else 'http'}://{NAME}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield listed
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
