"""Redis as people run it: a replica after a failover, a full memory, a Unix socket, Sentinels."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from tests.networks import answers, free_port
from tests.stack import Stack, running_stack, wait_for

pytestmark = pytest.mark.services
GROUP = "dbops"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack() as running:
        yield running


def bar_codes(stack: Stack) -> str:
    return stack.get("/status/?shown=").decode()


def works(stack: Stack) -> bool:
    """Return whether hints lead to probes."""
    stack.wait_for_facts("replica-1", 60)
    return True


@pytest.mark.parametrize(
    ("break_it", "mend_it"),
    [
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")),
    ],
    ids=["read-only replica", "full"],
)
def test_worker_survives_a_redis_that_takes_no_writes(
    stack: Stack, break_it: tuple[str, ...], mend_it: tuple[str, ...]
) -> None:
    """The same worker continues, and the bar names Redis, not the worker."""
    worker = stack.processes["worker"]
    with redis.Redis(port=stack.redis_port) as client:
        client.execute_command(*break_it)
        try:
            wait_for("the bar names Redis", lambda: "<code>redis.refuses</code>" in bar_codes(stack), 30)
            assert "worker.away" not in bar_codes(stack)
        finally:
            client.execute_command(*mend_it)
    wait_for("the bar is gone", lambda: "redis.refuses" not in bar_codes(stack), 30)
    assert works(stack)
    assert worker.poll() is None


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.terminate()
        running.wait(10)


def restarted_with(stack: Stack, url: str) -> None:
    """Restart the dashboard's processes with another address of Redis."""
    names = [name for name in stack.processes if name != "redis"]
    for name in names:
        stack.stop(name)
    stack.environment = stack.environment | {"DBOPS_REDIS_URL": url}
    stack.start(*names)
    wait_for("the web process", lambda: answers(f"{stack.url}/healthz/"))


def test_redis_by_unix_socket(stack: Stack, tmp_path: Path) -> None:
    with process("redis-server", "--port", "0", "--unixsocket", str(tmp_path / "r.sock"), "--save", ""):
        restarted_with(stack, f"unix://{tmp_path}/r.sock?db=3")
        assert works(stack)
        wait_for("no bar", lambda: "<code>" not in bar_codes(stack), 30)


def test_redis_by_sentinel_follows_a_failover(stack: Stack, tmp_path: Path) -> None:
    first, second, sentinel = free_port(), free_port(), free_port()
    settings = tmp_path / "sentinel.conf"
    settings.write_text(
        f"port {sentinel}\nbind 127.0.0.1\nsentinel monitor {GROUP} 127.0.0.1 {first} 1\n"
        f"sentinel down-after-milliseconds {GROUP} 1000\nsentinel failover-timeout {GROUP} 5000\n"
    )
    common = ("--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path))
    with (
        process("redis-server", "--port", str(first), *common) as primary,
        process("redis-server", "--port", str(second), *common, "--replicaof", "127.0.0.1", str(first)),
        process("redis-server", str(settings), "--sentinel"),
        redis.Redis(port=sentinel, decode_responses=True) as asked,
    ):
        wait_for("the replica is known", lambda: _replicas(asked) == 1, 60)
        restarted_with(stack, f"sentinel://127.0.0.1:{sentinel}/0?master={GROUP}")
        assert works(stack)
        worker = stack.processes["worker"]
        primary.kill()
        wait_for("the other server is the primary", lambda: _primary(asked) == second, 60)
        assert works(stack)
        assert worker.poll() is None
        wait_for("no bar", lambda: "<code>" not in bar_codes(stack), 30)


def _replicas(client: "redis.Redis[str]") -> int:
    try:
        return len(client.sentinel_slaves(GROUP))
    except redis.RedisError:
        return -1


def _primary(client: "redis.Redis[str]") -> int:
    return int(client.sentinel_get_master_addr_by_name(GROUP)[1])
