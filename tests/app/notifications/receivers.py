"""Real receivers of notifications on this machine: an HTTPS server and a mail server."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.networks import free_port

NAME = "127.0.0.1"


class HttpReceiver(ThreadingHTTPServer):
    """A receiver with a log of its requests: method, path, headers, body. ``statuses`` are its next answers, then 204."""

    daemon_threads = True

    def __init__(self, folder: Path | None) -> None:
        super().__init__((NAME, 0), _Handler)
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        self.scheme = "https" if folder else "http"
        if folder:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, *_: Any) -> None:
        """Print nothing about a client that left."""

    @property
    def address(self) -> str:
        return f"{self.scheme}://{NAME}:{self.server_address[1]}/in/s3cret-path"


class _Handler(BaseHTTPRequestHandler):
    server: HttpReceiver

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append((self.command, self.path, headers, body))
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", f"{self.server.address}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = _answer  # noqa: N815 - their names there

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def running_http(folder: Path | None = None) -> Iterator[HttpReceiver]:
    """Give a running receiver, with TLS if there are certificates."""
    import threading

    server = HttpReceiver(folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class MailReceiver:
    """A mail server's side: it takes what olga sends. ``answers`` are its next answers to messages, then 250."""

    def __init__(self) -> None:
        self.taken: list[Envelope] = []
        self.answers: list[str] = []
        self.port = free_port()

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - its name there
        if self.answers:
            return self.answers.pop(0)
        self.taken.append(envelope)
        return "250 OK"

    def address(self, password: str = "letter-secret") -> str:
        return (
            f"mailto://{NAME}:{self.port}?user=olga&pass={password}"
            "&from=dbops@example.org&to=boss@example.org&cc=dba@example.org&name=dbops"
        )


def _knows(server: SMTP, session: Session, envelope: Envelope, mechanism: str, account: LoginPassword) -> AuthResult:
    is_right = (account.login, account.password) == (b"olga", b"letter-secret")
    return AuthResult(success=is_right, handled=is_right)


@contextmanager
def running_mail() -> Iterator[MailReceiver]:
    """Give a running mail server that asks for an account."""
    found = MailReceiver()
    server = Controller(found, hostname=NAME, port=found.port, authenticator=_knows, auth_require_tls=False)
    server.start()
    try:
        yield found
    finally:
        server.stop()
