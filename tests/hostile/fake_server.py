"""A server that wants the password: it speaks the login of MySQL and MariaDB, asks for each method, and records every answer."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

#: Of each byte once, without NUL: as a server's scramble.
SALT = bytes(range(33, 53))
LONG_PASSWORD, PROTOCOL_41, TLS = 0x1, 0x200, 0x800
SECURE_CONNECTION, PLUGIN_AUTH, LENENC_DATA = 0x8000, 0x80000, 0x200000
NATIVE, OLD, CLEAR, DIALOG = "mysql_native_password", "mysql_old_password", "mysql_clear_password", "dialog"
SHA256, CACHING_SHA2, ED25519 = "sha256_password", "caching_sha2_password", "client_ed25519"
OK, MORE, SWITCH, LEGACY_SWITCH = b"\0\0\0\2\0\0\0", b"\1", b"\xfe", b"\xfe"
FILE = b"\xfb"
FAST, FULL, WANTS_KEY = b"\3", b"\4", (b"\1", b"\2")


@dataclass(frozen=True, slots=True)
class Demand:
    """What the server asks for.

    Args:
        greets_with: the method of the greeting, before anything else is said.
        switches_to: the method of the request to switch; empty: none.
        legacy: ask for ``mysql_old_password`` by the packet of servers before 4.1, which names no method.
        wants_file: ask for this file of the client in answer to every statement, as after LOAD DATA LOCAL.
    """

    greets_with: str = NATIVE
    switches_to: str = ""
    legacy: bool = False
    wants_file: str = ""

    @property
    def method(self) -> str:
        return OLD if self.legacy else self.switches_to or self.greets_with


@dataclass
class FakeServer:
    """An impostor that listens where a server should. ``certificate`` (with its key, PEM) offers TLS."""

    demand: Demand
    certificate: Path | None = None
    received: list[bytes] = field(default_factory=list)
    #: Passwords that came encrypted for the server's own key.
    decrypted: list[bytes] = field(default_factory=list)
    #: What was sent after the greeting, or after the request to switch.
    answers: list[bytes] = field(default_factory=list)
    logins: int = 0

    def __post_init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._open: list[socket.socket] = []

    @property
    def public_key(self) -> bytes:
        """Return the server's own key, in PEM."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key.public_key().public_bytes(serialization.Encoding.PEM, form)

    def got(self, password: str) -> bool:
        """Return whether the password arrived, in clear or to be decrypted."""
        return any(password.encode() in packet for packet in [*self.received, *self.decrypted])

    @contextlib.contextmanager
    def listening(self, place: "tuple[str, int] | str") -> Iterator[socket.socket]:
        """Listen on an address (port 0: any) or a socket path until the end of the block."""
        listener = socket.socket(socket.AF_UNIX if isinstance(place, str) else socket.AF_INET)
        listener.bind(place)
        if isinstance(place, str):
            Path(place).chmod(0o777)
        listener.listen()
        thread = threading.Thread(target=self._accept, args=(listener,), daemon=True)
        thread.start()
        try:
            yield listener
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.settimeout(5)
            self.logins += 1
            with contextlib.suppress(OSError, EOFError), contextlib.closing(Talk(connection, self.received)) as talk:
                self._serve(talk)

    def _serve(self, talk: "Talk") -> None:
        talk.send(self._greeting())
        answer = talk.read()
        if len(answer) == 32 and self.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            talk.connection = context.wrap_socket(talk.connection, server_side=True)
            answer = talk.read()
        self.answers.append(answer)
        if self.demand.legacy:
            talk.send(LEGACY_SWITCH)
            self.answers.append(talk.read())
        elif self.demand.switches_to or self.demand.greets_with.encode() not in answer:
            talk.send(SWITCH + self.demand.method.encode() + b"\0" + self._data())
            self.answers.append(talk.read())
        self._ask_on(talk)
        talk.send(OK)
        while talk.read():
            talk.send(FILE + self.demand.wants_file.encode() if self.demand.wants_file else OK)
            while self.demand.wants_file and talk.read():
                pass
            if self.demand.wants_file:
                talk.send(OK)

    def _ask_on(self, talk: "Talk") -> None:
        """Ask for the full exchange, and send the own key on request."""
        if self.demand.method == CACHING_SHA2:
            talk.send(MORE + FULL)
            self.answers.append(talk.read())
        if self.demand.method in (SHA256, CACHING_SHA2):
            if self.answers[-1] in WANTS_KEY:
                talk.send(MORE + self.public_key)
                self.answers.append(talk.read())
            self._decrypt(self.answers[-1])

    def _decrypt(self, answer: bytes) -> None:
        way = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)  # noqa: S303 - of the protocol
        with contextlib.suppress(ValueError):
            plain = self._key.decrypt(answer, way)
            self.decrypted.append(bytes(byte ^ SALT[at % 20] for at, byte in enumerate(plain)))

    def _data(self) -> bytes:
        """Return what follows the name of the method in a request to switch."""
        method = self.demand.method
        if method == DIALOG:
            return b"\x04Password: "
        if method == OLD:
            return SALT[:8] + b"\0"
        return b"" if method == CLEAR else SALT + (b"\0" if method != ED25519 else SALT[:12])

    def _greeting(self) -> bytes:
        flags = LONG_PASSWORD | PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH | LENENC_DATA
        flags |= TLS if self.certificate else 0
        return b"".join(
            (
                b"\x0a5.5.5-10.11.19-MariaDB\0",
                struct.pack("<I", 7),
                SALT[:8] + b"\0",
                struct.pack("<HBHHB", flags & 0xFFFF, 45, 2, flags >> 16, 21),
                bytes(10),
                SALT[8:] + b"\0",
                self.demand.greets_with.encode() + b"\0",
            )
        )


class Talk:
    """Packets of the protocol over one connection; each one that arrives is recorded."""

    def __init__(self, connection: socket.socket, received: list[bytes]) -> None:
        self.connection, self._received, self._number = connection, received, 0

    def close(self) -> None:
        self.connection.close()

    def send(self, payload: bytes) -> None:
        self.connection.sendall(struct.pack("<I", len(payload))[:3] + bytes([self._number]) + payload)
        self._number = (self._number + 1) % 256

    def read(self) -> bytes:
        head = self._exactly(4)
        self._number = (head[3] + 1) % 256
        payload = self._exactly(int.from_bytes(head[:3], "little"))
        self._received.append(payload)
        return payload

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if not (part := self.connection.recv(size - len(data))):
                raise EOFError
            data += part
        return data
