"""Real receivers of audit entries on this machine: rsyslog, an HTTPS server, and sockets that behave badly."""

import json
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.networks import free_port

NAME = "127.0.0.1"


def make_certificates(folder: Path) -> str:
    """Write an authority and a certificate of this machine. Return the authority as PEM."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    ca = ["-x509", *key, "-subj", "/CN=test CA", "-keyout", folder / "ca.key", "-out", folder / "ca.pem"]
    signed = ["-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-addext", f"subjectAltName=IP:{NAME}"]
    own = ["-x509", *key, "-subj", "/CN=receiver", *signed, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    for words in (ca, own):
        subprocess.run(["openssl", "req", *map(str, words)], check=True, capture_output=True, timeout=60)
    return (folder / "ca.pem").read_text()


class Rsyslog:
    """An rsyslogd with a configuration of its own. It writes the JSON text of each message, one a line."""

    def __init__(self, folder: Path, *, tls: bool) -> None:
        self.folder, self.tls, self.port = folder, tls, free_port()
        self.written = folder / "messages.jsonl"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        driver = f"""global(defaultNetstreamDriverCAFile="{self.folder}/ca.pem"
            defaultNetstreamDriverCertFile="{self.folder}/cert.pem" defaultNetstreamDriverKeyFile="{self.folder}/key.pem")
            module(load="imtcp" streamDriver.name="gtls" streamDriver.mode="1" streamDriver.authMode="anon")"""
        plain = 'module(load="imtcp")'
        (self.folder / "rsyslog.conf").write_text(
            f'global(workDirectory="{self.folder}")\n{driver if self.tls else plain}\n'
            'template(name="line" type="string" string="%structured-data% %msg%\\n")\n'
            f'input(type="imtcp" port="{self.port}" address="{NAME}")\n'
            f'action(type="omfile" file="{self.written}" template="line" flushOnTXEnd="on")\n'
        )
        words = ["rsyslogd", "-n", "-f", self.folder / "rsyslog.conf", "-i", self.folder / "rsyslog.pid"]
        self.process = subprocess.Popen([*map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex((NAME, self.port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError("rsyslogd does not listen")

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(20)
            self.process = None

    def entries(self, count: int) -> list[dict[str, Any]]:
        """Return the received entries when there are so many, with the structured data as ``data``."""
        lines: list[str] = []
        for _ in range(100):
            lines = self.written.read_text().splitlines() if self.written.exists() else []
            lines = [line for line in lines if "dbops@" in line]
            if len(lines) >= count:
                break
            time.sleep(0.1)
        made = []
        for line in lines:
            data, _, text = line.partition("] ")
            made.append({**json.loads(text), "data": data})
        return made

    @property
    def address(self) -> str:
        return f"syslog+{'tls' if self.tls else 'tcp'}://{NAME}:{self.port}"


@contextmanager
def running_rsyslog(folder: Path, *, tls: bool = False) -> Iterator[Rsyslog]:
    """Give a running rsyslogd."""
    if not shutil.which("rsyslogd"):
        pytest.skip("rsyslogd is not installed")
    if tls and not list(Path("/usr/lib").glob("*/rsyslog/lmnsd_gtls.so")):
        pytest.skip("rsyslog-gnutls is not installed")
    server = Rsyslog(folder, tls=tls)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class HttpsServer(ThreadingHTTPServer):
    """A receiver with a log of its requests. ``status`` is its answer."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__((NAME, 0), _Handler)
        self.status, self.seen = 200, list[tuple[str, str, list[dict[str, Any]]]]()
        self.entries: list[dict[str, Any]] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, *_: Any) -> None:
        """Print nothing about a client that left."""

    @property
    def address(self) -> str:
        return f"https://{NAME}:{self.server_address[1]}/in?index=dbops"


class _Handler(BaseHTTPRequestHandler):
    server: HttpsServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, self.headers.get("Authorization", ""), body))
        if 200 <= self.server.status < 300:
            self.server.entries += body
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running_https(folder: Path) -> Iterator[HttpsServer]:
    """Give a running HTTPS server."""
    server = HttpsServer(folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def bad_receiver(kind: str) -> Iterator[int]:
    """Give the port of a receiver that accepts connections, and then does one of these for ever.

    Args:
        kind: ``silent``: it reads nothing and answers nothing; ``deaf``: it reads all and never ends; ``resets``: it reads one byte and
            resets; ``drips``: it answers a byte of HTTP a tenth of a second.
    """
    listener, links = socket.create_server((NAME, 0)), []

    def serve() -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            links.append(link)
            threading.Thread(target=_behave, args=(kind, link), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        for link in links:
            link.close()


def _behave(kind: str, link: socket.socket) -> None:
    try:
        if kind == "deaf":
            while link.recv(65536):
                pass
            threading.Event().wait(60)
        elif kind == "resets":
            link.recv(1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.close()
        elif kind == "drips":
            for sign in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 10_000:
                link.sendall(bytes([sign]))
                time.sleep(0.1)
    except OSError:
        pass
