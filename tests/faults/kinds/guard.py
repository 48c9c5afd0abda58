"""The dead-man switch: a source whose replication is paused is given back within a minute by what is on it, and nothing else."""

import signal
import time
from contextlib import ExitStack
from typing import ClassVar

from tests.faults.injectors import hosts, network, tools
from tests.faults.kinds.tools import order_of_source
from tests.faults.matrix import Expected, Fault, register
from tests.faults.scene import SOURCE, Scene
from tests.faults.watch import applies, seconds_until
from tests.programs import backup_tool

#: from the fault to a source that replicates again
GIVEN_BACK_SECONDS = 60.0
DASHBOARD = ("worker", "beat", "web")


class Paused(Fault):
    """The source is paused when the fault comes; until it replicates again nothing is healed."""

    steps = ("stream",)
    pauses = True
    brake = 0.0
    patience_seconds = 240.0
    dashboard_gone: ClassVar[bool] = True
    #: what the backup process has read before it is hit
    after_bytes: ClassVar[int] = 1024**2
    codes: ClassVar[tuple[str, ...]] = ()

    #: seconds of silence that the guard bears; in the full matrix always the product's own
    short_settings: ClassVar[dict[str, str]] = {"DBOPS_GUARD_HEARTBEAT_SECONDS": "20"}

    def __init__(self) -> None:
        self.parts = ExitStack()
        self.seconds = 0.0

    def inject(self, scene: Scene) -> None:
        backup = hosts.wait_for_backup(scene.source, scene.uid, after_bytes=self.after_bytes)
        assert not applies(scene.stack, SOURCE), "the source is not paused: nothing would be shown"
        if self.dashboard_gone:
            for name in DASHBOARD:
                scene.stack.stop(name, signal.SIGKILL)
            self.parts.callback(scene.stack.start, *DASHBOARD)
        self.hit(scene, backup)

    def hit(self, scene: Scene, backup: int) -> None:
        """What else breaks."""

    def during(self, scene: Scene) -> None:
        self.seconds = seconds_until(
            f"{SOURCE} replicates again", lambda: applies(scene.stack, SOURCE), GIVEN_BACK_SECONDS
        )
        seconds_until("the backup has ended", lambda: hosts.backup_process(scene.source, scene.uid) is None, 10)

    def heal(self, scene: Scene) -> None:
        self.parts.close()

    def expect(self, scene: Scene) -> Expected:
        return Expected(("failed",), self.codes)


@register
class PausedControl(Fault):
    """The control: the source is paused and given back in good order."""

    name = "paused"
    title = "nothing happens to a source that is paused (the control)"
    steps = ("stream",)
    pauses = True
    brake = None

    def inject(self, scene: Scene) -> None:
        seconds_until("the source is paused", lambda: not applies(scene.stack, SOURCE), 30)


@register
class PausedBackupKilled(Paused):
    name = "paused-backup-killed"
    title = "the backup is killed with -9 on a paused source, the dashboard is gone too"
    codes = ("stream.killed",)

    def hit(self, scene: Scene, backup: int) -> None:
        hosts.kill_all([backup])

    def after(self, scene: Scene) -> None:
        assert self.seconds < 15, f"the backup was dead, and the source was given back after {self.seconds:.0f} s only"


@register
class PausedDashboardGone(Paused):
    name = "paused-dashboard-gone"
    title = "worker, beat and web are killed while the source is paused"
    short_settings: ClassVar[dict[str, str]] = {}
    codes = ("source.given_back",)


@register
class PausedSourceAlone(Paused):
    name = "paused-source-alone"
    title = "the paused source is cut off from everything"
    dashboard_gone = False
    codes = ("source.given_back",)

    def hit(self, scene: Scene, backup: int) -> None:
        links = [network.dashboard_link(scene.source), network.stream_link(scene.source, scene.target)]
        self.parts.enter_context(network.cut(*links))


@register
class PausedLinkCut(Paused):
    name = "paused-stream-link-cut"
    title = "the link between the paused source and the target is cut, the dashboard lives"
    short_settings: ClassVar[dict[str, str]] = {}
    dashboard_gone = False
    codes = ("transport.lost",)
    brake = 0.1  # the tool that unpacks has to see that the stream has ended

    def hit(self, scene: Scene, backup: int) -> None:
        self.parts.enter_context(network.cut(network.stream_link(scene.source, scene.target)))


@register
class PausedBackupStopped(Paused):
    name = "paused-backup-stopped"
    title = "the backup is held with SIGSTOP on a paused source, the dashboard is gone too"
    codes = ("source.given_back",)

    def hit(self, scene: Scene, backup: int) -> None:
        self.parts.enter_context(hosts.stopped(backup))


class PausedTool(Paused):
    """The source's backup tool is not what it should be."""

    order: ClassVar[str]
    codes = ("source.given_back",)
    after_bytes = 0  # a script, and a program that makes up what it sends

    def prepare(self, scene: Scene) -> None:
        order_of_source(scene, self.order)

    def tidy(self, scene: Scene) -> None:
        tools.order(scene.source, "")


@register
class PausedToolDeaf(PausedTool):
    name = "paused-tool-ignores-signals"
    title = "the backup tool ignores signals, the dashboard is gone"
    order = "hears no signal"


@register
class PausedToolBelowScript(PausedTool):
    name = "paused-tool-below-a-script"
    title = "the backup tool runs below a script, the dashboard is gone"
    order = "runs below a script"

    def hit(self, scene: Scene, backup: int) -> None:
        tool = backup_tool(scene.source)
        seconds_until("the real tool runs", lambda: bool(hosts.processes_with(scene.uid, tool)), 20)

    def during(self, scene: Scene) -> None:
        super().during(scene)
        left = hosts.processes_with(scene.uid, backup_tool(scene.source))
        assert not left, f"the source replicates, and the backup still reads it: {left}"


@register
class PausedGuardKilled(Paused):
    name = "paused-guard-killed"
    title = "the guard of a paused source is killed with -9, the dashboard lives"
    short_settings: ClassVar[dict[str, str]] = {}
    dashboard_gone = False

    def hit(self, scene: Scene, backup: int) -> None:
        guard = hosts.guard_process(scene.source, scene.uid)
        assert guard is not None, "there is no guard"
        hosts.kill_all([guard])

    def during(self, scene: Scene) -> None:
        seconds_until("another guard", lambda: hosts.guard_process(scene.source, scene.uid) is not None, 30)

    def expect(self, scene: Scene) -> Expected:
        return Expected(events=(r"guard on the source had ended .* new one is armed",))


@register
class PausedGuardAndDashboardKilled(PausedGuardKilled):
    """Two faults at once: with no guard left, only a dashboard that comes back can give the source back."""

    name = "paused-guard-and-worker-killed"
    title = "the guard of a paused source and the worker are killed together; a worker comes back after 20 s"

    def hit(self, scene: Scene, backup: int) -> None:
        scene.stack.stop("worker", signal.SIGKILL)
        super().hit(scene, backup)
        time.sleep(20)
        scene.stack.start("worker")
