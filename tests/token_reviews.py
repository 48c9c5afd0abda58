"""The part of a Kubernetes cluster that reviews tokens of service accounts, on this machine."""

import base64
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.app.audit.receivers import make_certificates


def jwt(account: str) -> str:
    """Return a token of a service account; its signature says nothing, as the cluster reviews it."""

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "db",
        "kubernetes.io/serviceaccount/service-account.name": account,
        "kubernetes.io/serviceaccount/service-account.uid": f"uid-{account}",
        "sub": f"system:serviceaccount:db:{account}",
    }
    return f"{part({'alg': 'RS256', 'typ': 'JWT'})}.{part(claims)}.{'c2ln' * 20}"


class Reviewer:
    """The part of a Kubernetes cluster that reviews tokens."""

    def __init__(self, folder: Path) -> None:
        self.ca, self.refuses = make_certificates(folder), False
        reviewer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                user = {"username": "system:serviceaccount:db:dbops", "uid": "uid-dbops", "groups": []}
                asked["status"] = {"authenticated": not reviewer.refuses, "user": user}
                text = json.dumps(asked).encode()
                self.send_response(201)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.address = f"https://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def reviewing(folder: Path) -> Iterator[Reviewer]:
    folder.mkdir()
    found = Reviewer(folder)
    threading.Thread(target=found.server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        found.server.shutdown()
        found.server.server_close()
