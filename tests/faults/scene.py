"""One rebuild under one fault: requested, hit at a moment, watched to its end."""

import json
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from lab.hosts import LabHost
from tests.e2e.host_state import HostState, host_states, one
from tests.faults.matrix import Fault
from tests.faults.moments import FINAL, Missed, wait_until_bytes_flow, wait_until_running, wait_until_unpacking
from tests.slow_process import braked
from tests.stack import Stack, wait_for

TARGET, SOURCE, PRIMARY = "replica-1", "backup-1", "primary-1"
#: writes a second on the primary while rebuilds run: enough for every backup to have something to roll forward
LOAD_TPS = 10


@dataclass(slots=True)
class Scene:
    """What a fault can see and reach. ``full`` is the whole matrix: faults may last for as long as the issue says."""

    stack: Stack
    fault: Fault
    step: str
    full: bool = False
    #: seconds between the step's begin and the fault
    delay_seconds: float = 0.0
    rebuild_id: int = 0
    uid: str = ""
    injected_at: float = 0.0
    ended_at: float = 0.0
    before: dict[str, HostState] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def target(self) -> LabHost:
        return self.stack.lab.host(TARGET)

    @property
    def source(self) -> LabHost:
        return self.stack.lab.host(SOURCE)

    @property
    def primary(self) -> LabHost:
        return self.stack.lab.host(PRIMARY)

    def rebuild(self) -> dict[str, Any]:
        """Return the rebuild's row as it is now."""
        return self.stack.rows("SELECT * FROM dbops_rebuild WHERE id = ?", self.rebuild_id)[0]

    def steps(self) -> dict[str, str]:
        rows = self.stack.rows(
            "SELECT name, state FROM dbops_rebuildstep WHERE rebuild_id = ? ORDER BY position", self.rebuild_id
        )
        return {row["name"]: row["state"] for row in rows}

    def stream_result(self) -> dict[str, Any] | None:
        """Return what a stream that failed has left of both ends, ``None`` where none failed."""
        sql = "SELECT result FROM dbops_rebuildstep WHERE rebuild_id = ? AND name = 'stream' AND state = 'failed'"
        rows = self.stack.rows(sql, self.rebuild_id)
        found: dict[str, Any] | None = json.loads(rows[0]["result"]) if rows else None
        return found

    def events(self) -> list[str]:
        rows = self.stack.rows("SELECT text FROM dbops_rebuildevent WHERE rebuild_id = ? ORDER BY id", self.rebuild_id)
        return [row["text"] for row in rows]

    def has_event(self, pattern: str) -> bool:
        return any(re.search(pattern, text) for text in self.events())

    def wait_for_event(self, pattern: str, seconds: float = 30.0) -> None:
        """Wait for a line of the history; at once when the rebuild ends without it."""
        wait_for(f"the event {pattern!r}", lambda: self.has_event(pattern) or self.is_final, seconds)
        if not self.has_event(pattern):
            raise AssertionError(f"the rebuild ended without the event {pattern!r}")

    @property
    def is_final(self) -> bool:
        return self.rebuild()["status"] in FINAL

    def wait_final(self, seconds: float = 180.0) -> None:
        wait_for(f"the end of rebuild {self.rebuild_id}", lambda: self.is_final, seconds)

    def cancel(self) -> None:
        """Cancel as a person does at the command line."""
        self.stack.manage("rebuild", TARGET, "--cancel", "--json")

    @property
    def must_pause(self) -> bool:
        return self.step == "pause" or self.fault.pauses


def binlog_format(stack: Stack, value: str) -> None:
    """``STATEMENT``: the source's replication has to be paused for a backup. ``ROW``: it need not be."""
    if one(stack, SOURCE, "SELECT @@GLOBAL.binlog_format AS f")["f"] != value:
        one(stack, SOURCE, f"SET GLOBAL binlog_format = {value}")
        stack.wait_for_facts(SOURCE)


def give_settings(scene: Scene) -> None:
    """Restart the worker if its settings are not those of this fault: they stay until another fault needs others."""
    stack, fault = scene.stack, scene.fault
    wanted = fault.settings if scene.full else fault.settings | fault.short_settings
    if stack.worker_settings != wanted:
        stack.worker_settings = wanted
        stack.stop("worker")
        stack.start("worker")


def get_ready(scene: Scene) -> None:
    """Put the lab to work, and remember the state of every host."""
    stack = scene.stack
    if stack.lab.write_load.pid() is None:
        stack.lab.load_start(tps=LOAD_TPS)
    give_settings(scene)
    binlog_format(stack, "STATEMENT" if scene.must_pause else "ROW")
    scene.fault.prepare(scene)
    stack.wait_for_facts(TARGET)
    scene.before = host_states(stack)
    scene.counters = counters(scene)


def counters(scene: Scene) -> dict[str, int]:
    """What the servers themselves have counted: stages of backups on the source (not MySQL), starts of the target's server."""
    row = one(scene.stack, SOURCE, "SHOW GLOBAL STATUS LIKE 'Com_backup'")
    log = scene.target.error_log
    starts = log.read_text(errors="replace").count("ready for connections") if log.exists() else 0
    return ({"backup_stages": int(row["Value"])} if row else {}) | {"server_starts": starts}


def request(scene: Scene) -> None:
    """Request the rebuild; what was refused is planned again after the next probe, as a person would."""
    words = ("rebuild", TARGET, "--reason", f"{scene.fault.name} in {scene.step}", "--json")

    def asked() -> dict[str, Any] | None:
        done = scene.stack.manage(*words, check=False)
        answers.append(json.loads(done.stdout.splitlines()[-1]))
        return answers[-1] if done.returncode == 0 else None

    answers: list[dict[str, Any]] = []
    try:
        scene.rebuild_id = wait_for("a rebuild that is not refused", asked, 60)["rebuild"]
    except AssertionError:
        raise AssertionError(f"the rebuild was refused {len(answers)} times: {answers[-1]}") from None
    scene.uid = scene.rebuild()["uid"]


def look_where_it_is(scene: Scene) -> None:
    """After a delay another step may run: that one is hit, and what is expected is what is expected there."""
    running = [name for name, state in scene.steps().items() if state == "running"]
    if scene.is_final or not running or running[0] not in scene.fault.steps:
        raise Missed(
            f"after {scene.delay_seconds:.1f} s {running or 'no step'} runs, which {scene.fault.name} cannot hit"
        )
    scene.step = running[0]


def play(scene: Scene) -> None:
    """Rebuild, inject the fault the moment its step runs, heal it, and wait for the rebuild's end."""
    fault = scene.fault
    with ExitStack() as stack:
        brake = None
        if scene.step == "stream" and fault.brake is not None:
            brake = stack.enter_context(braked(scene.target, fault.brake))
        stack.callback(fault.heal, scene)
        request(scene)
        wait_until_running(scene.stack, scene.rebuild_id, scene.step)
        if brake:
            # Without a session there is no stream to hit. A program that is stopped whole never reads its first bytes.
            (wait_until_bytes_flow if fault.brake else wait_until_unpacking)(scene.target)
        if scene.delay_seconds:
            time.sleep(scene.delay_seconds)
            look_where_it_is(scene)
        scene.injected_at = time.time()
        fault.inject(scene)
        fault.during(scene)
        fault.heal(scene)
        if brake:
            brake.release()
        scene.wait_final(fault.patience_seconds)
        scene.ended_at = time.time()
