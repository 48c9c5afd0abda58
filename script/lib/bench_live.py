"""script/bench live: compare a web process with few and with many open event streams.

Starts Redis and the web process with script/run on a temporary database. A wrapper around the connections of the web process
counts its queries; the process is otherwise unchanged. Asserts nothing.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

from script.lib import supervisor
from script.lib.bench_ground import headline, scratch
from script.lib.stage import PYTHON, ROOT
from script.lib.supervisor import Failed, Process

OPEN_FILES = 16384
SETTLE_SECONDS = 3.0
MARK, MARK_BEGIN = re.compile(rb"mark-\d+-\d+-\d+(?= )"), b"mark-"
# Python imports a module of this name at startup if its folder is on the path.
COUNTER = """
import mmap, os, struct, sys
if any("uvicorn" in word for word in sys.argv[:1] + sys.orig_argv):
    from django.db.backends.signals import connection_created
    shared = mmap.mmap(os.open(os.environ["BENCH_COUNTER"], os.O_RDWR), 8)
    def count(execute, sql, params, many, context):
        shared[:8] = struct.pack("q", struct.unpack("q", shared[:8])[0] + 1)
        return execute(sql, params, many, context)
    def opened(connection, **_):
        if count not in connection.execute_wrappers:
            connection.execute_wrappers.append(count)
    connection_created.connect(opened)
"""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench live", description=__doc__)
    parser.add_argument("--few", type=int, default=10, help="open streams to compare with (default 10)")
    parser.add_argument("--viewers", type=int, default=1000, help="open streams (default 1000)")
    parser.add_argument(
        "--rebuilds", type=int, default=10, help="rebuilds to watch at the same time, compared with one (default 10)"
    )
    parser.add_argument("--seconds", type=int, default=20, help="seconds of events per measurement (default 20)")
    parser.add_argument("--gap", type=float, default=2.0, help="seconds between two events of one rebuild (default 2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    return parser.parse_args(arguments)


@dataclass
class Figures:
    """The result of one measurement."""

    viewers: int
    rebuilds: int
    expected: int = 0
    delays_ms: list[float] = field(default_factory=list)
    queries: int = 0
    cpu_seconds: float = 0.0
    connection_kb: float = 0.0

    def row(self) -> dict[str, float]:
        cuts = quantiles(self.delays_ms, n=100) if len(self.delays_ms) > 1 else [float("nan")] * 99
        return {
            "events that should arrive": self.expected,
            "events that arrived": len(self.delays_ms),
            "delay p50 ms": cuts[49],
            "delay p95 ms": cuts[94],
            "delay max ms": max(self.delays_ms, default=float("nan")),
            "queries of the web process": self.queries,
            "processor seconds of the web process": self.cpu_seconds,
            "kB a connection (RSS)": self.connection_kb,
        }


class Writer:
    """The process that creates rebuilds and writes their events like a worker."""

    def __init__(self, variables: dict[str, str], rebuilds: int) -> None:
        words = [PYTHON, "-m", "script.lib.bench_live_writer", str(rebuilds)]
        self.popen = subprocess.Popen(
            words, env=variables, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.made = self._answer()

    def write(self, rebuild: int, text: str) -> float:
        """Write one event. Return the time (``time.monotonic``) of its commit."""
        assert self.popen.stdin is not None  # noqa: S101 - a pipe
        self.popen.stdin.write(json.dumps([rebuild, text]) + "\n")
        self.popen.stdin.flush()
        return float(self._answer())

    def _answer(self) -> Any:
        assert self.popen.stdout is not None  # noqa: S101 - a pipe
        line = self.popen.stdout.readline()
        if not line:
            raise Failed("the writer ended")
        return json.loads(line)

    def end(self) -> None:
        assert self.popen.stdin is not None  # noqa: S101 - a pipe
        self.popen.stdin.close()
        self.popen.wait(30)


class Web:
    """The web process and its kernel counters."""

    def __init__(self, variables: dict[str, str], folder: Path) -> None:
        self.port, self.counter = int(variables["DBOPS_WEB_PORT"]), Path(variables["BENCH_COUNTER"])
        self.process = Process("web", [str(ROOT / "script" / "run"), "web"], variables, folder)
        self.process.start()

    @property
    def pid(self) -> int:
        assert self.process.popen is not None  # noqa: S101 - it was started
        return self.process.popen.pid

    def rss_kb(self) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def queries(self) -> int:
        return int(struct.unpack("q", self.counter.read_bytes())[0])


async def watch_page(
    port: int, cookie: str, rebuild: int, arrived: list[tuple[str, float]], ready: asyncio.Event
) -> None:
    """Act as one open page: record the arrival time of each marked line."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        head = f"GET /rebuilds/{rebuild}/events/ HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: sessionid={cookie}\r\n\r\n"
        writer.write(head.encode())
        status = await reader.readline()
        if b" 200 " not in status:
            raise Failed(f"a stream was refused: {status!r}")
        rest = b""
        while chunk := await reader.read(1 << 18):
            # Read chunks, not lines: the measurement must cost less than the measured work.
            text, at = rest + chunk, time.monotonic()
            if not ready.is_set():
                if b"event: status" in text:
                    ready.set()
            else:
                arrived.extend((found.decode(), at) for found in MARK.findall(text))
            rest = text[-80:] if MARK_BEGIN in text[-80:] and not MARK.search(text[-80:]) else b""
    except ConnectionError:
        pass  # the benchmark also times the exit of the web process with open streams
    finally:
        writer.close()


async def measure(web: Web, writer: Writer, viewers: int, rebuilds: list[int], options: argparse.Namespace) -> Figures:
    """Open the streams, let them settle, write events, then close the streams."""
    found = Figures(viewers, len(rebuilds))
    arrived: list[tuple[str, float]] = []
    rss = web.rss_kb()
    pages = await open_pages(web.port, writer.made["session"], viewers, rebuilds, arrived)
    await asyncio.sleep(SETTLE_SECONDS)
    queries, cpu = web.queries(), web.cpu_seconds()
    committed = await write_events(writer, rebuilds, options)
    await asyncio.sleep(SETTLE_SECONDS)
    found.queries, found.cpu_seconds = web.queries() - queries, web.cpu_seconds() - cpu
    found.connection_kb = (web.rss_kb() - rss) / viewers
    found.delays_ms = [1000 * (at - committed[mark]) for mark, at in arrived if mark in committed]
    found.expected = sum(viewers // len(rebuilds) + (place < viewers % len(rebuilds)) for place in range(len(rebuilds)))
    found.expected *= len(committed) // len(rebuilds)
    await close_pages(pages)
    await asyncio.sleep(SETTLE_SECONDS)
    return found


async def open_pages(
    port: int, cookie: str, viewers: int, rebuilds: list[int], arrived: list[tuple[str, float]]
) -> list[asyncio.Task[None]]:
    pages, waits = [], []
    for number in range(viewers):
        ready = asyncio.Event()
        pages.append(asyncio.create_task(watch_page(port, cookie, rebuilds[number % len(rebuilds)], arrived, ready)))
        waits.append(ready.wait())
        if number % 50 == 49:
            await asyncio.sleep(0.2)
    await asyncio.wait_for(asyncio.gather(*waits), 120)
    return pages


async def close_pages(pages: list[asyncio.Task[None]]) -> None:
    for page in pages:
        page.cancel()
    await asyncio.gather(*pages, return_exceptions=True)


async def write_events(writer: Writer, rebuilds: list[int], options: argparse.Namespace) -> dict[str, float]:
    """Write events at an even rate. Return the commit time by mark."""
    committed: dict[str, float] = {}
    began, number = time.monotonic(), 0
    for turn in range(int(options.seconds / options.gap)):
        for place, rebuild in enumerate(rebuilds):
            due = began + (turn + place / len(rebuilds)) * options.gap
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            mark, number = f"mark-{rebuild}-{turn}-{time.monotonic_ns()}", number + 1
            committed[mark] = await asyncio.to_thread(writer.write, rebuild, f"{mark} written")
    return committed


async def end_with_open_streams(web: Web, writer: Writer, viewers: int) -> float:
    """Return the seconds that the web process takes to exit after SIGTERM with open streams."""
    pages = await open_pages(web.port, writer.made["session"], viewers, writer.made["rebuilds"], [])
    began = time.monotonic()
    await asyncio.to_thread(web.process.stop, 60.0)
    seconds = time.monotonic() - began
    await close_pages(pages)
    return seconds


async def run(web: Web, writer: Writer, options: argparse.Namespace) -> tuple[list[Figures], float]:
    made = writer.made["rebuilds"]
    await measure(web, writer, options.few, made, argparse.Namespace(seconds=4, gap=2.0))  # fills caches
    found = []
    for rebuilds in (made[:1], made):
        for viewers in (options.few, options.viewers):
            print(f"{viewers} streams, {len(rebuilds)} rebuilds", flush=True)
            found.append(await measure(web, writer, viewers, rebuilds, options))
    return found, await end_with_open_streams(web, writer, options.viewers)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    raise_open_files()
    with scratch() as folder:
        try:
            found, seconds = on_stage(folder, options)
        except Failed as error:
            print(f"Failed: {error}")
            return 1
    print_table(found, seconds, options, arguments)
    return 0


def raise_open_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def environment(folder: Path) -> dict[str, str]:
    (folder / "path").mkdir()
    (folder / "path" / "sitecustomize.py").write_text(COUNTER)
    (folder / "counter").write_bytes(bytes(8))
    redis_port = supervisor.free_port(6590)
    return {
        **os.environ,
        "PYTHONPATH": str(folder / "path"),
        "BENCH_COUNTER": str(folder / "counter"),
        "DBOPS_STATE_DIR": str(folder),
        "DBOPS_DATABASE_URL": f"sqlite:///{folder / 'live.sqlite3'}",
        "DBOPS_REDIS_PORT": str(redis_port),
        "DBOPS_REDIS_URL": f"redis://127.0.0.1:{redis_port}/0",
        "DBOPS_WEB_PORT": str(supervisor.free_port(8650)),
    }


def on_stage(folder: Path, options: argparse.Namespace) -> tuple[list[Figures], float]:
    variables = environment(folder)
    redis = Process("redis", [str(ROOT / "script" / "run"), "redis"], variables, folder)
    redis.start()
    try:
        writer = Writer(variables, options.rebuilds)
        web = Web(variables, folder)
        try:
            deadline = time.monotonic() + 30
            while supervisor.is_free(web.port) and time.monotonic() < deadline:
                web.process.check()
                time.sleep(0.2)
            return asyncio.run(run(web, writer, options))
        finally:
            web.process.stop(10.0)
            writer.end()
    finally:
        redis.stop(10.0)


def print_table(found: list[Figures], seconds: float, options: argparse.Namespace, arguments: list[str]) -> None:
    print(f"\n{headline('live', arguments, f'load {os.getloadavg()[0]:.1f}')}")
    for few, many in zip(found[::2], found[1::2], strict=True):
        print(
            f"\n| {few.rebuilds} rebuilds, {options.seconds} s | {few.viewers} streams | {many.viewers} streams | ratio |"
        )
        print("|---|---|---|---|")
        for (name, left), right in zip(few.row().items(), many.row().values(), strict=True):
            ratio = f"{right / left:.2f}" if left else "–"
            print(f"| {name} | {left:,.1f} | {right:,.1f} | {ratio} |")
    print(f"\nWith {options.viewers} open streams the web process exited {seconds:.1f} s after SIGTERM.")
    if options.json:
        rows = [{"viewers": item.viewers, "rebuilds": item.rebuilds, **item.row()} for item in found]
        print(json.dumps({"measured": rows, "end_seconds": seconds}))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
