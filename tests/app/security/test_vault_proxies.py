"""What answers in the place of Vault: a load balancer that has no server behind it."""

import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dbops.security.vault import Vault
from tests.app.security.test_vault import ADMIN, aged, code_of
from tests.vault_server import OpenBao


@contextmanager
def proxy_instead(bao: OpenBao, status: int) -> Iterator[None]:
    """Answer at the address of a server as a load balancer does that has none behind it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = b"<h1>no server is available</h1>"
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", bao.port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bao.folder / "cert.pem", bao.folder / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 503])
def test_what_a_proxy_answers_for_it_forgets_nothing(
    bao: OpenBao, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bao.write("clusters/shop", admin="s3cret of shop")
    vault, cold = Vault(bao.settings()), Vault(bao.settings())
    assert vault.read(ADMIN) == "s3cret of shop"
    bao.stop()
    with proxy_instead(bao, status):
        aged(vault, monkeypatch, 301)
        assert vault.read(ADMIN) == "s3cret of shop"
        assert code_of(cold) == "vault.unreachable"
