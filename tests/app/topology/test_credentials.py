"""Where passwords go when replication is followed: a server that listens to everything, and asks for the password itself."""

import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from dbops.models import Cluster, Discovery
from dbops.worker.discovery import run_discovery
from tests.app.factories import make_cluster, make_instance

pytestmark = pytest.mark.django_db
PASSWORD = "open sesame"
GREETING = (
    b"\x0a8.0.36\0"
    + struct.pack("<I", 7)
    + b"a" * 8
    + b"\0"
    + struct.pack("<H", 0xF7FF)
    + b"\x21"
    + struct.pack("<H", 2)
    + struct.pack("<H", 0x800F)
    + b"\x15"
    + b"\0" * 10
    + b"b" * 12
    + b"\0mysql_native_password\0"
)


class Listener:
    """Greets as a server does, asks for another way to log in, and keeps what it is sent."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.asks = b"mysql_clear_password"
        self.heard: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with client:
                client.settimeout(60)
                self.heard.append(b"")
                self._send(client, 0, GREETING)
                self._hear(client)
                self._send(
                    client, 2, b"\xfe" + self.asks + b"\0" + (b"\x02Password: " if self.asks == b"dialog" else b"")
                )
                self._hear(client)

    def _send(self, client: socket.socket, number: int, body: bytes) -> None:
        client.sendall(struct.pack("<I", len(body))[:3] + bytes([number]) + body)

    def _hear(self, client: socket.socket) -> None:
        self.heard[-1] += client.recv(4096)


@pytest.fixture
def listener() -> Iterator[Listener]:
    server = Listener()
    yield server
    server.socket.close()


def walked(listener: Listener, cluster: Cluster | None) -> dict[str, Any]:
    account = {} if cluster else {"user": "dbops", "password": PASSWORD}
    row = Discovery.objects.create(
        requested_by="olga",
        status="queued",
        requested_at=timezone.now(),
        address="127.0.0.1",
        port=listener.port,
        cluster=cluster,
        **account,
    )
    assert run_discovery(row.pk)
    row.refresh_from_db()
    (node,) = row.result["nodes"]
    problem: dict[str, Any] = node["problem"]
    return problem


def lender() -> Cluster:
    cluster = make_cluster()
    cluster.admin_user, cluster.admin_password = "dbops", PASSWORD
    cluster.save()
    return cluster


def test_stored_account_is_never_sent_outside_the_inventory(listener: Listener) -> None:
    cluster = lender()
    make_instance("other", cluster=cluster, address="127.0.0.1", port=listener.port + 1)
    assert walked(listener, cluster)["code"] == "discovery.not_listed"
    assert listener.heard == []
    make_instance("listed", cluster=cluster, address="127.0.0.1", port=listener.port)
    assert walked(listener, cluster)["code"] != "discovery.not_listed"
    assert b"dbops" in listener.heard[0]


@pytest.mark.parametrize("asks", [b"mysql_clear_password", b"dialog"])
def test_password_is_never_sent_in_clear(listener: Listener, asks: bytes) -> None:
    listener.asks = asks
    problem = walked(listener, None)
    assert problem["code"] == "mysql.login_method"
    assert b"dbops" in listener.heard[0]
    assert PASSWORD.encode() not in listener.heard[0]
