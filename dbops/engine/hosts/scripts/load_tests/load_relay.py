"""Carry the connections of a load generator on another host to the socket of a scratch server. Needs Python 3.6, and no other module.

    load_relay.py server SOCKET PROCESS         beside the server, its standard input and descriptor 3 connected to PROCESS, an ssh
    load_relay.py generator SOCKET COMMAND...   beside the generator, in that ssh's session; makes the socket, and runs the command

Both send frames: kind, number of the connection, length, bytes. The generator's standard input is descriptor 3. Its output is the
standard output of the side of the server, which ends with the generator's status, or with ``LOST`` if the other side is gone.

Nothing that arrives is interpreted: a connection reaches the one socket, whatever is sent.
"""

import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback

OPEN, DATA, CLOSE, OUTPUT, END, BEAT = range(1, 7)
HEADER = struct.Struct(">BII")
CHUNK_BYTES, MOST_FRAME_BYTES = 1 << 17, 1 << 20
#: While more than this waits for the other side, nothing is read from connections.
MOST_WAITING_BYTES = 1 << 21
BEAT_SECONDS, SILENT_SECONDS, CONNECT_SECONDS = 1.0, 40.0, 10.0
LOST = 126
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
TICKS = os.sysconf("SC_CLK_TCK")


class Lost(Exception):
    """The other side is gone, or sends what is no frame."""


class Relay:
    """One side. ``listener``, ``output`` and ``child`` are those of the generator's."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming, self.outgoing = incoming, outgoing
        for one in (incoming, outgoing):
            os.set_blocking(one, False)
        self.received, self.waiting = bytearray(), bytearray()
        self.connections = {}  # type: dict[int, socket.socket]
        self.numbers = {}  # type: dict[int, int]
        self.unsent = {}  # type: dict[int, bytearray]
        self.closing = set()  # type: set[int]
        self.all, self.pipes = select.epoll(), select.epoll()
        for poll in (self.all, self.pipes):
            poll.register(incoming, select.EPOLLIN)
        self.is_writing = False
        self.heard = time.monotonic()
        self.beaten = 0.0

    def send(self, kind: int, number: int = 0, data: bytes = b"") -> None:
        self.waiting += HEADER.pack(kind, number, len(data))
        self.waiting += data

    def step(self) -> None:
        """Wait for at most a second and do what can be done. Raises ``Lost``."""
        now = time.monotonic()
        if now - self.beaten >= BEAT_SECONDS:
            self.beaten = now
            self.send(BEAT)
        if now - self.heard > SILENT_SECONDS:
            raise Lost("the other side is silent")
        self.flush()
        poll = self.all if len(self.waiting) < MOST_WAITING_BYTES else self.pipes
        for descriptor, events in poll.poll(BEAT_SECONDS):
            if descriptor == self.incoming:
                self.receive()
            elif descriptor == self.outgoing:
                if events & (select.EPOLLERR | select.EPOLLHUP):
                    raise Lost("the connection is closed")
            elif descriptor in self.numbers:
                self.serve(self.numbers[descriptor], events)
            else:
                self.other(descriptor)
        self.flush()

    def other(self, descriptor: int) -> None:
        """Serve what is no connection, or was one until a moment ago: both of its ends can close in the same step."""

    def handle(self, kind: int, number: int, data: bytes) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        while self.waiting:
            try:
                sent = os.write(self.outgoing, memoryview(self.waiting)[: 1 << 20])
            except BlockingIOError:
                break
            except OSError as error:
                raise Lost(str(error)) from error
            del self.waiting[:sent]
        if self.is_writing != bool(self.waiting):
            self.is_writing = bool(self.waiting)
            for poll in (self.all, self.pipes):
                if self.is_writing:
                    poll.register(self.outgoing, select.EPOLLOUT)
                else:
                    poll.unregister(self.outgoing)

    def receive(self) -> None:
        try:
            data = os.read(self.incoming, CHUNK_BYTES * 4)
        except BlockingIOError:
            return
        if not data:
            raise Lost("the connection is closed")
        self.heard = time.monotonic()
        self.received += data
        at = 0
        while len(self.received) - at >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self.received, at)
            if length > MOST_FRAME_BYTES:
                raise Lost("no frame")
            end = at + HEADER.size + length
            if len(self.received) < end:
                break
            self.handle(kind, number, bytes(self.received[at + HEADER.size : end]))
            at = end
        del self.received[:at]

    # --- connections
    def add(self, number: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connections[number], self.numbers[connection.fileno()] = connection, number
        self.all.register(connection.fileno(), select.EPOLLIN)

    def serve(self, number: int, events: int) -> None:
        if events & select.EPOLLOUT:
            self.give(number, b"")
        if number not in self.connections or not events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            return
        try:
            data = self.connections[number].recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.send(DATA, number, data)
        else:
            self.send(CLOSE, number)
            self.drop(number)

    def give(self, number: int, data: bytes) -> None:
        """Send data to a connection, after what it did not take before."""
        connection = self.connections.get(number)
        if connection is None:
            return
        rest = self.unsent.get(number, b"") + data
        try:
            sent = connection.send(rest) if rest else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self.send(CLOSE, number)
            self.drop(number)
            return
        if sent < len(rest):
            self.unsent[number] = bytearray(rest[sent:])
            self.all.modify(connection.fileno(), select.EPOLLIN | select.EPOLLOUT)
        elif number in self.unsent:
            del self.unsent[number]
            self.all.modify(connection.fileno(), select.EPOLLIN)
        if number in self.closing and number not in self.unsent:
            self.drop(number)

    def end(self, number: int) -> None:
        """Close a connection after everything that it has to get."""
        if number in self.unsent:
            self.closing.add(number)
        else:
            self.drop(number)

    def drop(self, number: int) -> None:
        connection = self.connections.pop(number, None)
        if connection is None:
            return
        self.unsent.pop(number, None)
        self.closing.discard(number)
        del self.numbers[connection.fileno()]
        self.all.unregister(connection.fileno())
        connection.close()


class ProcessorUse:
    """The share of a core that a process uses while the generator measures. Its lines say when it begins and ends."""

    def __init__(self, name: str, process: int) -> None:
        self.name, self.process = name, process
        self.begun = None  # type: tuple[float, float] | None
        self.line = b""

    def look(self, output: bytes) -> None:
        if b"dbops measuring " in output:
            self.begun = self.now()
        if self.begun and b"dbops end " in output:
            seconds, cpu = (now - before for now, before in zip(self.now(), self.begun, strict=False))
            if seconds > 0:
                self.line = f"dbops tunnel {self.name} {cpu / seconds:.3f}\n".encode()

    def now(self) -> "tuple[float, float]":
        try:
            with open(f"/proc/{self.process}/stat") as file:
                words = file.read().rpartition(")")[2].split()
            return time.monotonic(), (int(words[11]) + int(words[12])) / TICKS
        except (OSError, ValueError, IndexError):
            return time.monotonic(), 0.0


class ServerSide(Relay):
    """Connect each connection of the generator to the server's socket."""

    def __init__(self, path: str, process: int) -> None:
        super().__init__(0, 3)
        self.path, self.status = path, -1
        self.busy = (ProcessorUse("relay-of-server", os.getpid()), ProcessorUse("ssh", process))

    def run(self) -> int:
        try:
            while self.status < 0:
                self.step()
        except Lost as error:
            write(1, f"dbops: the connection to the load generator was lost: {error}\n".encode())
            return LOST
        for one in self.busy:
            write(1, one.line)
        return self.status

    def handle(self, kind: int, number: int, data: bytes) -> None:
        if kind == DATA:
            self.give(number, data)
        elif kind == OPEN:
            self.connect(number)
        elif kind == CLOSE:
            self.end(number)
        elif kind == OUTPUT:
            for one in self.busy:
                one.look(data)
            write(1, data)
        elif kind == END and data.isdigit():
            self.status = min(255, int(data))

    def connect(self, number: int) -> None:
        if number in self.connections:
            raise Lost("a connection was opened twice")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(CONNECT_SECONDS)  # many at once fill the server's queue
        try:
            connection.connect(self.path)
        except OSError:
            connection.close()
            self.send(CLOSE, number)
            return
        self.add(number, connection)


class GeneratorSide(Relay):
    """Run the generator, and pass its connections on."""

    def __init__(self, path: str, command: "list[str]") -> None:
        super().__init__(0, 1)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(4096)
        self.listener.setblocking(False)
        self.all.register(self.listener.fileno(), select.EPOLLIN)
        self.opened, self.is_over = 0, False
        self.busy = ProcessorUse("relay-of-generator", os.getpid())
        self.child = subprocess.Popen(
            command, stdin=3, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/", preexec_fn=die_with_parent
        )
        assert self.child.stdout  # noqa: S101 - it is a pipe
        self.output = self.child.stdout.fileno()
        self.all.register(self.output, select.EPOLLIN)

    def run(self) -> int:
        try:
            while not self.is_over:
                self.step()
            status = self.child.wait()
            self.send(OUTPUT, 0, self.busy.line)
            self.send(END, 0, str(status if status >= 0 else 128 - status).encode())
            until = time.monotonic() + SILENT_SECONDS
            while self.waiting and time.monotonic() < until:
                self.step()
        except Lost as error:
            write(2, f"dbops: {error}\n".encode())
            return LOST
        finally:
            self.child.kill()
            self.child.wait()
        return 0

    def other(self, descriptor: int) -> None:
        if descriptor == self.output:
            data = os.read(self.output, 1 << 16)
            self.busy.look(data)
            self.is_over = not data
            if data:
                self.send(OUTPUT, 0, data)
            else:
                self.all.unregister(self.output)
            return
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        self.opened += 1
        self.send(OPEN, self.opened)
        self.add(self.opened, connection)

    def handle(self, kind: int, number: int, data: bytes) -> None:
        if kind == DATA:
            self.give(number, data)
        elif kind == CLOSE:
            self.end(number)


def die_with_parent() -> None:
    """Let the kernel end the generator with its relay, however that ends."""
    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(LOST)


def write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    side, path = sys.argv[1], sys.argv[2]
    try:
        status = (ServerSide(path, int(sys.argv[3])) if side == "server" else GeneratorSide(path, sys.argv[3:])).run()
    except Exception:  # or it would end with 1, which is a status of the generator
        traceback.print_exc()
        status = LOST
    sys.exit(status)
