"""The injectors alone: each breaks its target and restores it."""

import io
import socket
import struct
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.injectors import chunks, disks, network, proxy
from tests.networks import free_network

pytestmark = pytest.mark.faults
NETWORK = free_network()
CLIENT, SERVER, OTHER = f"{NETWORK}.51", f"{NETWORK}.52", f"{NETWORK}.53"
PORT = 2299


@contextmanager
def server(content: bytes, address: str = SERVER) -> Iterator[None]:
    """Send the content to each client that connects."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.sendall(content)
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(1)
                except OSError:
                    continue

    with socket.create_server((address, PORT)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


def read_all(address: tuple[str, int], bind: str = CLIENT, seconds: float = 10.0) -> bytes:
    with socket.create_connection(address, timeout=seconds, source_address=(bind, 0)) as connection:
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts)


def link(client: str = CLIENT) -> list[network.Rule]:
    return network._both_ways(client, SERVER, PORT)


@pytest.mark.skipif(bool(network.may_cut()), reason="links cannot be cut here")
class TestNetwork:
    def test_cut_silences_one_link_only(self) -> None:
        with server(b"hello"):
            assert read_all((SERVER, PORT)) == b"hello"
            with network.cut(link()):
                with pytest.raises(TimeoutError):
                    read_all((SERVER, PORT), seconds=1)
                assert read_all((SERVER, PORT), bind=OTHER) == b"hello"
            assert read_all((SERVER, PORT)) == b"hello"
        assert network.rules_of_this_process() == []

    def test_cut_restores_the_link_after_an_error(self) -> None:
        def fail() -> None:
            with network.cut(link(), link(OTHER)):
                assert len(network.rules_of_this_process()) == 4
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert network.rules_of_this_process() == []

    def test_rules_of_a_killed_process_are_removed(self) -> None:
        gone = subprocess.Popen(["true"])
        gone.wait()
        rule = (*link()[0], "-m", "comment", "--comment", f"{network.MARK}-{gone.pid}", "-j", "DROP")
        network._iptables("-I", network.CHAIN, *rule)
        with network.cut(link(OTHER)):
            assert len(network.remove_leftovers()) == 1
            assert len(network.rules_of_this_process()) == 2
        assert not any(f"{network.MARK}-{gone.pid}" in line for line in network.rules_in_force())


class TestProxy:
    CONTENT = bytes(range(256)) * 4096

    @pytest.fixture
    def between(self) -> Iterator[proxy.Proxy]:
        with server(self.CONTENT), proxy.running(proxy.Proxy((OTHER, PORT), (SERVER, PORT), bind=CLIENT)) as made:
            yield made

    def test_proxy_passes_everything(self, between: proxy.Proxy) -> None:
        assert read_all(between.listen) == self.CONTENT
        assert between.carried == [len(self.CONTENT)]

    @pytest.mark.parametrize("count", [0, 1, 16 * 1024, 100_001])
    def test_proxy_cuts_at_the_byte(self, between: proxy.Proxy, count: int) -> None:
        between.conditions.cut_after_bytes = count
        assert read_all(between.listen) == self.CONTENT[:count]

    def test_proxy_resets_a_connection(self, between: proxy.Proxy) -> None:
        between.conditions.cut_after_bytes, between.conditions.reset = 500_000, True
        with pytest.raises(ConnectionResetError):
            read_all(between.listen)

    def test_proxy_changes_data_at_the_byte(self, between: proxy.Proxy) -> None:
        between.conditions.dirty_after_bytes, between.conditions.dirt = 70_000, b"dirt"
        assert read_all(between.listen) == self.CONTENT[:70_000] + b"dirt" + self.CONTENT[70_000:]

    def test_proxy_limits_the_rate(self, between: proxy.Proxy) -> None:
        between.conditions.bytes_per_second = 2_000_000
        began = time.monotonic()
        assert read_all(between.listen) == self.CONTENT
        assert time.monotonic() - began > len(self.CONTENT) / 2_000_000 * 0.9

    def test_proxy_adds_delay(self, between: proxy.Proxy) -> None:
        between.conditions.delay_seconds, between.conditions.part_bytes = 0.5, 2**20
        began = time.monotonic()
        read_all(between.listen)
        assert time.monotonic() - began > 0.5


def chunk(path: bytes, payload: bytes | None, offset: int = 0) -> bytes:
    head = (
        chunks.MAGIC + b"\0" + (chunks.END if payload is None else chunks.PAYLOAD) + struct.pack("<I", len(path)) + path
    )
    return head if payload is None else head + struct.pack("<QQI", len(payload), offset, zlib.crc32(payload)) + payload


class TestChunks:
    def cut(self, stream: bytes, keep_bytes: int) -> bytes:
        sink = io.BytesIO()
        chunks.cut(io.BytesIO(stream), sink, keep_bytes)
        return sink.getvalue()

    def test_chunk_cutter_cuts_at_the_end_of_a_chunk(self) -> None:
        first, second, end = chunk(b"a", b"x" * 1000), chunk(b"a", b"y" * 1000, 1000), chunk(b"a", None)
        stream = first + second + end
        assert self.cut(stream, 1) == first
        assert self.cut(stream, len(first)) == first
        assert self.cut(stream, len(first) + 1) == first + second
        assert self.cut(stream, 10**9) == stream

    def test_chunk_cutter_refuses_other_data(self) -> None:
        with pytest.raises(ValueError, match="not a chunk"):
            self.cut(b"<html>an error page</html>", 1)


class TestDisks:
    def test_small_disk_fills_up_and_is_removed(self, tmp_path: Path) -> None:
        folder = tmp_path / "data"
        folder.mkdir(mode=0o750)
        (folder / "below").write_text("stays")
        try:
            with disks.small(folder, 2):
                assert list(folder.iterdir()) == []
                disks.fill(folder)
                with pytest.raises(OSError, match="No space left"):
                    (folder / "more").write_bytes(b"x" * 8192)
                (folder / "ballast").unlink()
                (folder / "data").write_bytes(b"x" * 8192)
                disks.shrink(folder)
                with pytest.raises(OSError, match="No space left"):
                    (folder / "more").write_bytes(b"x" * 8192)
        except RuntimeError as error:
            pytest.skip(f"mounting is not permitted here: {error}")
        assert (folder / "below").read_text() == "stays"
