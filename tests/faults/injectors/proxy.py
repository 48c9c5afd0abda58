"""A TCP proxy that makes a link slow, narrow, short or dirty: a kernel without netem cannot.

It runs in a thread of this process, and connects the target's ssh to the source's sshd.
"""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lab.hosts import LabHost

#: the last number of the proxy's address in the lab's network: no host of a lab is that far
ADDRESS_NUMBER = 240


@dataclass(slots=True)
class Conditions:
    """What the link is like; may be changed while connections are open. Bytes are counted from the server to the client.

    ``delay_seconds`` is added to each part in each direction. ``cut_after_bytes`` ends the connection when exactly that many
    bytes have passed, ``dirty_after_bytes`` puts ``dirt`` there. Both spare connections that carry less.
    """

    delay_seconds: float = 0.0
    bytes_per_second: float = 0.0
    cut_after_bytes: int | None = None
    dirty_after_bytes: int | None = None
    dirt: bytes = b"\0" * 16
    part_bytes: int = 16 * 1024
    reset: bool = False


@dataclass(slots=True)
class Proxy:
    """``listen`` and ``server`` are address and port; connections to the server come from ``bind`` where it is given."""

    listen: tuple[str, int]
    server: tuple[str, int]
    bind: str = ""
    conditions: Conditions = field(default_factory=Conditions)
    #: bytes that each connection has carried to its client, in the order of their beginning
    carried: list[int] = field(default_factory=list)

    async def serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        number = len(self.carried)
        self.carried.append(0)
        local = (self.bind, 0) if self.bind else None
        writers = [to_client]
        try:
            server, to_server = await asyncio.open_connection(*self.server, local_addr=local)
            writers.append(to_server)
            ways = [
                asyncio.ensure_future(self._up(client, to_server)),
                asyncio.ensure_future(self._down(number, server, to_client)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # one end is gone, and so is the other in a moment
        finally:
            for writer in writers:
                self._close(writer)

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(self.conditions.part_bytes):
            await asyncio.sleep(self.conditions.delay_seconds)
            writer.write(part)
            await writer.drain()

    async def _down(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(self.conditions.part_bytes):
            now = self.conditions
            if now.delay_seconds:
                await asyncio.sleep(now.delay_seconds)
            before = self.carried[number]
            end = before + len(part)
            if now.dirty_after_bytes is not None and before <= now.dirty_after_bytes < end:
                place = now.dirty_after_bytes - before
                part = part[:place] + now.dirt + part[place:]
            if now.cut_after_bytes is not None and now.cut_after_bytes <= end:
                part = part[: max(0, now.cut_after_bytes - before)]
                writer.write(part)
                await writer.drain()
                self.carried[number] += len(part)
                return
            writer.write(part)
            await writer.drain()
            self.carried[number] = end
            if now.bytes_per_second:
                await asyncio.sleep(len(part) / now.bytes_per_second)

    def _close(self, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        if (
            self.conditions.reset and connection is not None
        ):  # what is unsent is thrown away, and the other end sees a reset
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.close()


@contextmanager
def running(proxy: Proxy) -> Iterator[Proxy]:
    """Serve until the block ends; then every connection through the proxy is gone too."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
    thread.start()
    try:
        opening = asyncio.start_server(proxy.serve, *proxy.listen)
        listener = asyncio.run_coroutine_threadsafe(opening, loop).result(60)
        try:
            yield proxy
        finally:
            asyncio.run_coroutine_threadsafe(_end(listener), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


async def _end(listener: asyncio.Server) -> None:
    listener.close()
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


def before(source: LabHost, target: LabHost) -> Proxy:
    """A proxy before the source's sshd, at an address of the lab's network and at sshd's port.

    The run's key is let in from the target's address alone: so that is where the proxy's connections come from.
    """
    address = f"{source.address.rpartition('.')[0]}.{ADDRESS_NUMBER}"
    return Proxy((address, source.ssh_port), (source.address, source.ssh_port), bind=target.address)
