"""The head leaves the machine: into a file, to syslog, to an address, for real."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from dbops.audit.head_export import send_head
from dbops.audit.log import append, current_head
from dbops.engine.audit.chain import read_heads

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _an_entry() -> None:
    append(actor="olga", action="test", subject="a")


def test_the_file_gets_a_line_each_time_that_verify_can_read(settings: Any, tmp_path: Path) -> None:
    settings.AUDIT_HEAD_FILE = str(tmp_path / "heads")
    assert send_head() == []
    first = current_head()
    append(actor="olga", action="test", subject="b")
    assert send_head() == []
    lines = (tmp_path / "heads").read_text().splitlines()
    assert dict(read_heads(lines)) == {1: first.hash, 2: current_head().hash}


def test_syslog_gets_it(settings: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10)
        settings.AUDIT_HEAD_SYSLOG = f"127.0.0.1:{receiver.getsockname()[1]}"
        assert send_head() == []
        text = receiver.recv(1000).decode().rstrip("\0")
    assert dict(read_heads([text])) == {1: current_head().hash}


def test_an_address_gets_it(settings: Any) -> None:
    seen: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        settings.AUDIT_HEAD_WEBHOOK = f"http://127.0.0.1:{server.server_port}/hook"
        assert send_head() == []
        thread.join(10)
    assert (seen[0]["sequence"], seen[0]["hash"]) == (1, current_head().hash)


def test_a_way_that_fails_keeps_no_other_from_being_tried(
    settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings.AUDIT_HEAD_SYSLOG = str(tmp_path / "no socket")
    settings.AUDIT_HEAD_WEBHOOK = "file:///etc/s3cret"
    settings.AUDIT_HEAD_FILE = str(tmp_path / "none" / "heads")
    assert send_head() == ["file", "syslog", "webhook"]
    assert "s3cret" not in caplog.text
