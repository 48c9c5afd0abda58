"""A web process as it is started for real, with many open event streams: what each costs it, and how it ends."""

import re
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.long_log import dashboard_with_log
from tests.stack import Stack

pytestmark = pytest.mark.services
STREAMS = 120


@pytest.fixture(scope="module")
def dashboard() -> Iterator[tuple[Stack, str]]:
    with dashboard_with_log(count=50) as running:
        yield running


@contextmanager
def open_streams(stack: Stack, path: str, count: int) -> Iterator[list[socket.socket]]:
    """Open event streams, each by a connection of its own, and wait until each has begun."""
    key = stack.session_key()
    head = f"GET {path}events/ HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: sessionid={key}\r\n\r\n".encode()
    with ExitStack() as all_of_them:
        streams = []
        for _ in range(count):
            stream = all_of_them.enter_context(socket.create_connection(("127.0.0.1", stack.web_port), timeout=30))
            stream.sendall(head)
            streams.append(stream)
        for stream in streams:
            begin = read_until(stream, b"event: status")
            assert begin.startswith(b"HTTP/1.1 200 "), begin[:200]
        yield streams


def read_until(stream: socket.socket, mark: bytes) -> bytes:
    seen = b""
    while mark not in seen:
        chunk = stream.recv(1 << 16)
        assert chunk, f"the stream ended before {mark!r}: {seen[-200:]!r}"
        seen += chunk
    return seen


def threads(stack: Stack) -> int:
    status = Path(f"/proc/{stack.processes['web'].pid}/status").read_text()
    found = re.search(r"^Threads:\s+(\d+)$", status, re.MULTILINE)
    assert found
    return int(found[1])


def test_open_stream_uses_no_thread_and_one_socket(dashboard: tuple[Stack, str]) -> None:
    stack, path = dashboard
    files = Path(f"/proc/{stack.processes['web'].pid}/fd")
    with open_streams(stack, path, 5):
        few_threads, few_files = threads(stack), len(list(files.iterdir()))
        with open_streams(stack, path, STREAMS):
            time.sleep(1)
            assert threads(stack) - few_threads < 20
            assert len(list(files.iterdir())) - few_files < STREAMS + 20


def test_sigterm_ends_the_web_process_and_every_open_stream(dashboard: tuple[Stack, str]) -> None:
    stack, path = dashboard
    with open_streams(stack, path, STREAMS) as streams:
        web = stack.processes["web"]
        web.send_signal(signal.SIGTERM)
        # Five seconds are what it is given in script/run (SIGKILL of Docker comes after ten); the rest is a busy machine's.
        web.wait(20)
        for stream in streams:
            ready, _, _ = select.select([stream], [], [], 30)
            assert ready
            while stream.recv(1 << 16):
                pass
