"""Messages that are delivered again: at once, while the rebuild runs, and long after it has ended."""

import base64
import json
import time
from contextlib import closing

import redis

from tests.e2e.host_state import host_states
from tests.faults.matrix import Fault, register
from tests.faults.scene import Scene
from tests.stack import wait_for

TIMES = 5
#: sent by the product's own task; no worker reads this queue
MAKE = "from dbops.worker.tasks import drive_rebuild; drive_rebuild.apply_async(args=(0,), queue='unread')"


@register
class DeliveredAgain(Fault):
    """The raw message of a tick, one and the same id, pushed back into its queue as a broker redelivers it.

    It carries no time of expiry: a broker that gives back an hour later what was never acknowledged does that, too.
    """

    name = "message-again"
    title = "the message of a tick delivered again, 5 times at once, each second, and after the end"
    raw = b""

    def prepare(self, scene: Scene) -> None:
        scene.stack.manage("shell", "-c", MAKE)
        with closing(queue_of(scene)) as queue:
            self.raw = queue.lpop("unread")

    def push(self, scene: Scene, rebuild_id: int, times: int = 1) -> None:
        with closing(queue_of(scene)) as queue:
            for _ in range(times):
                queue.lpush("ticks", for_rebuild(self.raw, rebuild_id))

    def inject(self, scene: Scene) -> None:
        self.push(scene, scene.rebuild_id, TIMES)

    def during(self, scene: Scene) -> None:
        for _ in range(TIMES):
            time.sleep(1)
            self.push(scene, scene.rebuild_id)

    def after(self, scene: Scene) -> None:
        """Of a rebuild that has ended, also of an older one, a message does nothing: not in the tables, not on the hosts."""
        before = (traces(scene), host_states(scene.stack))
        self.push(scene, scene.rebuild_id, TIMES)
        self.push(scene, 1, TIMES)
        with closing(queue_of(scene)) as queue:
            wait_for("the messages to be read", lambda: queue.llen("ticks") == 0, 30)
        time.sleep(2)
        assert (traces(scene), host_states(scene.stack)) == before


def queue_of(scene: Scene) -> "redis.Redis[bytes]":
    return redis.Redis(port=scene.stack.redis_port)


def for_rebuild(raw: bytes, rebuild_id: int) -> bytes:
    """Return the message with another rebuild's id in it and everything else, its own id too, as it is."""
    message = json.loads(raw)
    body = json.loads(base64.b64decode(message["body"]))
    body[0] = [rebuild_id]
    message["body"] = base64.b64encode(json.dumps(body).encode()).decode()
    return json.dumps(message).encode()


def traces(scene: Scene) -> list[object]:
    """Return all that a driver would leave in the tables."""
    rows = scene.stack.rows
    return [
        rows("SELECT id, status, fence, revision, heartbeat_at, lease_owner FROM dbops_rebuild ORDER BY id"),
        rows("SELECT COUNT(*) AS events FROM dbops_rebuildevent"),
        rows("SELECT COUNT(*) AS commands FROM dbops_executedcommand"),
    ]
