"""The transport of hints, on a Redis of its own."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from kombu import Connection, Consumer, Queue

from dbops.celery import app
from tests.networks import free_port
from tests.run_folder import new_folder
from tests.stack import ROOT, wait_for

pytestmark = pytest.mark.services


@pytest.fixture
def port() -> Iterator[int]:
    """Run Redis as the product does, and give its port."""
    folder, number = new_folder("redis"), free_port()
    environment = {**os.environ, "DBOPS_REDIS_DIR": str(folder), "DBOPS_REDIS_PORT": str(number)}
    process = subprocess.Popen([ROOT / "script" / "run", "redis"], env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_for("Redis", lambda: is_up(number))
        yield number
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        shutil.rmtree(folder)


def is_up(port: int) -> bool:
    try:
        return bool(redis.Redis(port=port).ping())
    except redis.ConnectionError:
        return False


def connection(port: int) -> Connection:
    found: Connection = app.connection_for_read(f"redis://127.0.0.1:{port}/0")
    return found


def take_one(line: Connection) -> Any:
    """Take one hint from the queue without saying that it was taken."""
    taken: list[Any] = []
    hints = Queue("hints", exchange="hints", routing_key="hints")
    with Consumer(line.default_channel, [hints], callbacks=[lambda body, message: taken.append(body)]):
        line.drain_events(timeout=5)
    return taken


def test_closed_channel_sends_nothing_to_redis(port: int) -> None:
    with connection(port) as sender:
        sender.SimpleQueue("hints").put({"rebuild": 1})
    line = connection(port)
    assert take_one(line) == [{"rebuild": 1}]
    line.close()
    # Put back, it would be here again; with a Redis that is gone, putting back is what ended workers.
    assert redis.Redis(port=port).llen("hints") == 0
