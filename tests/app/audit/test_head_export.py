"""The export of the audit head to a real file and a real syslog receiver."""

import socket
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


def test_send_head_appends_a_line_that_verify_reads(settings: Any, tmp_path: Path) -> None:
    settings.AUDIT_HEAD_FILE = str(tmp_path / "heads")
    assert send_head() == []
    first = current_head()
    append(actor="olga", action="test", subject="b")
    assert send_head() == []
    lines = (tmp_path / "heads").read_text().splitlines()
    assert dict(read_heads(lines)) == {1: first.hash, 2: current_head().hash}


def test_send_head_reaches_syslog(settings: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(60)
        settings.AUDIT_HEAD_SYSLOG = f"127.0.0.1:{receiver.getsockname()[1]}"
        assert send_head() == []
        text = receiver.recv(1000).decode().rstrip("\0")
    assert dict(read_heads([text])) == {1: current_head().hash}


def test_send_head_tries_every_destination_when_one_fails(settings: Any, tmp_path: Path) -> None:
    settings.AUDIT_HEAD_SYSLOG = str(tmp_path / "no socket")
    settings.AUDIT_HEAD_FILE = str(tmp_path / "none" / "heads")
    assert send_head() == ["file", "syslog"]
    settings.AUDIT_HEAD_FILE = str(tmp_path / "heads")
    assert send_head() == ["syslog"]
    assert dict(read_heads((tmp_path / "heads").read_text().splitlines())) == {1: current_head().hash}
