"""Beat, web, Redis and the database of the dashboard fail while a rebuild runs."""

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from contextlib import closing

from tests.faults.kinds.worker import REATTACHED
from tests.faults.matrix import Expected, Fault, register
from tests.faults.scene import Scene
from tests.networks import answers
from tests.stack import wait_for


@register
class BeatKilled(Fault):
    name = "beat-killed"
    title = "beat killed with -9, a new one after 5 s"

    def inject(self, scene: Scene) -> None:
        scene.stack.stop("beat", signal.SIGKILL)

    def during(self, scene: Scene) -> None:
        time.sleep(5)
        scene.stack.start("beat")


@register
class WebKilled(Fault):
    name = "web-killed"
    title = "web process killed with -9, a new one after 5 s"

    def inject(self, scene: Scene) -> None:
        scene.stack.stop("web", signal.SIGKILL)

    def during(self, scene: Scene) -> None:
        time.sleep(5)
        scene.stack.start("web")

    def after(self, scene: Scene) -> None:
        page = f"{scene.stack.url}/rebuilds/{scene.rebuild_id}/"
        wait_for("the rebuild's page", lambda: answers(page), 20)


@register
class RedisEmptied(Fault):
    name = "redis-emptied"
    title = "Redis killed with -9, restarted empty after 3 s"

    def inject(self, scene: Scene) -> None:
        scene.stack.stop("redis", signal.SIGKILL)
        shutil.rmtree(scene.stack.folder / "redis")

    def during(self, scene: Scene) -> None:
        time.sleep(3)
        scene.stack.start("redis")
        time.sleep(5)


@register
class RedisFlushed(Fault):
    name = "redis-flushed"
    title = "FLUSHALL in Redis, three times"
    telling = "prepare"

    def inject(self, scene: Scene) -> None:
        for _ in range(3):
            command = ["redis-cli", "-p", str(scene.stack.redis_port), "flushall"]
            subprocess.run(command, check=True, capture_output=True)
            time.sleep(0.5)


@register
class RedisFrozen(Fault):
    name = "redis-frozen"
    title = "Redis stopped (SIGSTOP) for 12 s"

    def inject(self, scene: Scene) -> None:
        os.killpg(scene.stack.processes["redis"].pid, signal.SIGSTOP)

    def during(self, scene: Scene) -> None:
        time.sleep(12)

    def heal(self, scene: Scene) -> None:
        os.killpg(scene.stack.processes["redis"].pid, signal.SIGCONT)


@register
class DatabaseLocked(Fault):
    name = "database-locked"
    title = "the dashboard's database locked for 10 s"
    seconds = 10.0

    def inject(self, scene: Scene) -> None:
        with closing(sqlite3.connect(scene.stack.folder / "dbops.sqlite3", timeout=20)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            time.sleep(self.seconds)
            connection.rollback()


@register
class DatabaseLockedForLong(DatabaseLocked):
    """Beyond the time that a writer waits for the lock, and beyond the lease."""

    name = "database-locked-long"
    title = "the dashboard's database locked for 40 s"
    seconds = 40.0
    only_full = True


@register
class AllKilled(Fault):
    """The dashboard's machine restarts."""

    name = "dashboard-killed"
    title = "worker, beat, web and Redis killed with -9 at once, new ones after 3 s"

    def inject(self, scene: Scene) -> None:
        for name in ("worker", "beat", "web", "redis"):
            scene.stack.stop(name, signal.SIGKILL)

    def during(self, scene: Scene) -> None:
        time.sleep(3)
        scene.stack.start("redis", "web", "worker", "beat")
        scene.wait_for_event(REATTACHED, 40)

    def expect(self, scene: Scene) -> Expected:
        return Expected(reattached=True, events=(REATTACHED,))
