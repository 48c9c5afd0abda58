"""Workers that die, are replaced, or are only slow."""

import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import ClassVar

from lab.processes import children
from tests.faults.matrix import Expected, Fault, register
from tests.faults.scene import TARGET, Scene
from tests.stack import ROOT, wait_for

REATTACHED = r"Re-?attached after \d+ s"
LAUNCHER = (ROOT / "dbops" / "drivers" / "remote" / "launcher.sh").read_text()


@register
class WorkerKilled(Fault):
    name = "worker-killed"
    title = "worker killed with -9, a new one at once"
    seconds_without = 0.0

    def inject(self, scene: Scene) -> None:
        scene.stack.stop("worker", signal.SIGKILL)
        time.sleep(self.seconds_without)
        scene.stack.start("worker")

    def during(self, scene: Scene) -> None:
        scene.wait_for_event(REATTACHED, 40)

    def expect(self, scene: Scene) -> Expected:
        return Expected(reattached=True, events=(REATTACHED,))


@register
class WorkerKilledForAWhile(WorkerKilled):
    name = "worker-away"
    title = "worker killed with -9, a new one after 5 s"
    telling = "prepare"
    seconds_without = 5.0


@register
class ChildrenKilled(WorkerKilled):
    """What the kernel does when memory runs out: the children go, their parent stays."""

    name = "worker-children-killed"
    title = "the worker's children killed with -9 (out of memory)"
    telling = "start"

    def inject(self, scene: Scene) -> None:
        for child in children(scene.stack.processes["worker"].pid):
            os.kill(child, signal.SIGKILL)


@register
class Deploy(Fault):
    name = "worker-deploy"
    title = "worker ended with SIGTERM, a new one started (a deploy)"
    telling = "swap-datadir"

    def inject(self, scene: Scene) -> None:
        scene.stack.stop("worker", signal.SIGTERM)
        scene.stack.start("worker")


@register
class WorkerStopped(Fault):
    """A worker that is only slow: stopped beyond its lease, while another takes over; then it continues."""

    name = "worker-stopped"
    title = "worker stopped (SIGSTOP) beyond its lease, another takes over, then SIGCONT"
    patience_seconds = 300.0
    #: so that the default run need not wait for the true lease
    short_settings: ClassVar[dict[str, str]] = {"DBOPS_LEASE_SECONDS": "6"}
    old_owner = ""
    old_token = 0

    def inject(self, scene: Scene) -> None:
        stack = scene.stack
        stop_outside_a_write(scene, stack.processes["worker"].pid)
        stack.processes["worker-old"] = stack.processes.pop("worker")
        rebuild = scene.rebuild()
        self.old_owner, self.old_token = rebuild["lease_owner"], token(scene)
        self.stopped_at = time.monotonic()
        stack.start("worker")

    def during(self, scene: Scene) -> None:
        scene.wait_for_event(REATTACHED, 60)
        if scene.full:
            time.sleep(max(0.0, 120 - (time.monotonic() - self.stopped_at)))
        self.heal(scene)
        time.sleep(5)  # for what the old one would do now
        assert scene.rebuild()["lease_owner"] != self.old_owner or not self.old_owner

    def heal(self, scene: Scene) -> None:
        old = scene.stack.processes.get("worker-old")
        if old is not None and old.poll() is None:
            os.killpg(old.pid, signal.SIGCONT)

    def tidy(self, scene: Scene) -> None:
        stack = scene.stack
        self.heal(scene)
        if "worker-old" in stack.processes:
            stack.stop("worker-old", signal.SIGKILL)

    def expect(self, scene: Scene) -> Expected:
        return Expected(events=(REATTACHED,))

    def after(self, scene: Scene) -> None:
        """The hosts themselves refuse the old driver's token, for acting and for starting."""
        assert token(scene) > self.old_token
        mark = scene.target.work_dir / "rebuilds" / scene.uid / "acted"
        for verb, *words in (("act", f"touch {mark}"), ("start", "again", "work")):
            answer = ask_launcher(scene, self.old_token, verb, *words)
            assert "host.fenced" in answer, f"{verb} with the old token {self.old_token}: {answer}"
        assert not mark.exists()
        # the control: the newest token may
        assert "host.fenced" not in ask_launcher(scene, token(scene), "act", f"touch {mark}")
        assert mark.exists()
        mark.unlink()
        wait_for("the old worker to let go", lambda: lets_go(scene), 30)


def stop_outside_a_write(scene: Scene, group: int) -> None:
    """Stop a worker while it does not hold SQLite's one write lock: else no other worker can write and take over."""
    for _ in range(50):
        os.killpg(group, signal.SIGSTOP)
        with closing(sqlite3.connect(scene.stack.folder / "dbops.sqlite3", timeout=0.3)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                os.killpg(group, signal.SIGCONT)
                time.sleep(0.02)
    raise AssertionError("the worker was never seen outside a write")


def token(scene: Scene) -> int:
    """Return what a driver shows to hosts now: the fence of ``Rebuild.host_token``, read where the hosts keep it."""
    file: Path = scene.target.work_dir / "instances" / TARGET / "fence"
    return int(file.read_text()) if file.exists() else 0


def ask_launcher(scene: Scene, fence: int, verb: str, *words: str) -> str:
    """Call the launcher on the target as a driver with this fencing token does."""
    owner = scene.target.work_dir / "instances" / TARGET / "owner"
    dashboard = owner.read_text().split()[1]
    place = (str(scene.target.work_dir), TARGET, scene.uid, str(fence), dashboard)
    command = ["sh", "-c", LAUNCHER, "sh", verb, *place, *words]
    done = subprocess.run(command, input="end\n", capture_output=True, text=True, check=False, timeout=30)
    return done.stdout


def lets_go(scene: Scene) -> bool:
    """Return whether the old worker logged its loss after it continued: its own time limits may end it first."""
    log = (scene.stack.folder / "worker.log").read_text(errors="replace")
    words = (f"rebuild {scene.rebuild_id}: another driver has it", "Hard time limit", "this tick ends early")
    return any(word in log for word in words)
