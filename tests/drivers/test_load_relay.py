"""What carries the connections of a load generator: both of its sides, without ssh between them."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from dbops.engine.hosts.scripts import load_python

MIB = 1024**2
LOST = 126
#: Both sides notice a silent one much earlier.
RELAY = load_python("load_relay").replace(
    "SILENT_SECONDS, CONNECT_SECONDS = 1.0, 40.0", "SILENT_SECONDS, CONNECT_SECONDS = 0.2, 2.0"
)
#: Connections that send and receive at once: more than any pipe holds.
TALK = """
import contextlib, json, socket, sys, threading
path, connections, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
found = []
def send(one, data):
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        one.sendall(data)
def talk(number):
    one = socket.socket(socket.AF_UNIX)
    one.connect(path)
    sent = bytes([number % 256]) * size
    sender = threading.Thread(target=send, args=(one, sent))
    sender.start()
    got = bytearray()
    while len(got) < size:
        try:
            data = one.recv(1 << 16)
        except ConnectionResetError:  # closed before everything that was sent was read
            break
        if not data:
            break
        got += data
    sender.join()
    one.close()
    found.append(bytes(got) == sent)
threads = [threading.Thread(target=talk, args=(number,)) for number in range(connections)]
[one.start() for one in threads]
[one.join() for one in threads]
print(json.dumps([len(found), all(found)]), sys.stdin.read(), flush=True)
"""


@dataclass
class Sides:
    """Both processes; ``output`` is what the side of the server said."""

    server: subprocess.Popen[str]
    generator: subprocess.Popen[bytes]

    def end(self, seconds: float = 60) -> tuple[int, str]:
        output, _ = self.server.communicate(timeout=seconds)
        self.generator.wait(timeout=20)
        return self.server.returncode, output


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[str]:
    """A server that sends back what it gets."""
    path = str(tmp_path / "server")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(128)

    def serve(one: socket.socket) -> None:
        with one, suppress(OSError):
            while data := one.recv(1 << 16):
                one.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield path
    listener.close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Sides]]:
    found: list[Sides] = []
    yield found
    for sides in found:
        for process in (sides.server, sides.generator):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.communicate()


def start(started: list[Sides], tmp_path: Path, server: str, *command: str) -> Sides:
    """Connect both sides as ssh would. ``{socket}`` in the command is the socket of the generator's side."""
    path, said = str(tmp_path / "generator"), tmp_path / "input"
    said.write_text("what it reads")
    (to_generator, from_server), (to_server, from_generator) = os.pipe(), os.pipe()
    words = [word.replace("{socket}", path) for word in command]
    generator = subprocess.Popen(
        ["bash", "-c", 'exec "$@" 3<"$0"', str(said), sys.executable, "-c", RELAY, "generator", path, *words],
        stdin=to_generator,
        stdout=from_generator,
        stderr=subprocess.DEVNULL,
    )
    words = ["bash", "-c", f'exec "$@" 3>&{from_server}', "dbops", sys.executable, "-c", RELAY, "server", server]
    process = subprocess.Popen(
        [*words, str(generator.pid)], stdin=to_server, stdout=subprocess.PIPE, text=True, pass_fds=[from_server]
    )
    for one in (to_generator, from_server, to_server, from_generator):
        os.close(one)
    started.append(Sides(process, generator))
    return started[-1]


@pytest.mark.parametrize(("connections", "size"), [(1, 0), (200, 1000), (8, 8 * MIB)])
def test_connections_carry_everything_both_ways(
    started: list[Sides], tmp_path: Path, echo: str, connections: int, size: int
) -> None:
    words = [sys.executable, "-c", TALK, "{socket}", str(connections), str(size)]
    status, output = start(started, tmp_path, echo, *words).end()
    assert status == 0, output
    counted, _, read = output.partition("] ")
    assert json.loads(f"{counted}]") == [connections, True]
    assert read.strip() == "what it reads"


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -ABRT $$", 134), ("kill -KILL $$", 137)])
def test_status_of_the_generator_arrives(
    started: list[Sides], tmp_path: Path, echo: str, script: str, status: int
) -> None:
    assert start(started, tmp_path, echo, "bash", "-c", f"echo a word; {script}").end() == (status, "a word\n")


def test_connection_without_a_server_is_closed(started: list[Sides], tmp_path: Path) -> None:
    words = [sys.executable, "-c", TALK, "{socket}", "1", "10"]
    status, output = start(started, tmp_path, str(tmp_path / "missing"), *words).end()
    assert (status, output.split("]")[0]) == (0, "[1, false")


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("side", ["server", "generator"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_side_that_dies_or_falls_silent_ends_the_other_and_the_generator(
    started: list[Sides], tmp_path: Path, echo: str, side: str, number: signal.Signals
) -> None:
    sides = start(started, tmp_path, echo, "sleep", "100")
    deadline = time.monotonic() + 10
    while not (found := children(sides.generator.pid)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    victim, other = (sides.server, sides.generator) if side == "server" else (sides.generator, sides.server)
    victim.send_signal(number)
    assert other.wait(timeout=10) == LOST
    if side == "server" or number == signal.SIGKILL:
        while Path(f"/proc/{found[0]}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_what_is_no_frame_ends_the_connection(started: list[Sides], tmp_path: Path, echo: str) -> None:
    process = subprocess.Popen(
        ["bash", "-c", 'exec "$@" 3>/dev/null', "dbops", sys.executable, "-c", RELAY, "server", echo, "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    process.communicate(b"\xff" * 100, timeout=10)
    assert process.returncode == LOST


OPEN, DATA, CLOSE, OUTPUT, END, BEAT = range(1, 7)


def frame(kind: int, number: int = 0, data: bytes = b"") -> bytes:
    return struct.pack(">BII", kind, number, len(data)) + data


def test_connection_that_both_ends_close_at_once_ends_nothing_else(tmp_path: Path) -> None:
    path = str(tmp_path / "server")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(8)
    listener.settimeout(20)
    words = ["bash", "-c", 'exec "$@" 3>/dev/null', "dbops", sys.executable, "-c", RELAY, "server", path, "1"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as relay:
        assert relay.stdin
        relay.stdin.write(frame(OPEN, 1))
        connection, _ = listener.accept()
        relay.stdin.write(frame(DATA, 1, b"quit"))
        assert connection.recv(4) == b"quit"
        relay.send_signal(signal.SIGSTOP)  # so that it finds both ends in one step
        relay.stdin.write(frame(CLOSE, 1))
        connection.close()
        relay.send_signal(signal.SIGCONT)
        relay.stdin.write(frame(OPEN, 2))
        listener.accept()[0].close()
        relay.stdin.write(frame(END, 0, b"7"))
        assert relay.wait(timeout=20) == 7
    listener.close()
