"""Links that are cut, slow or dirty: between source and target, and from the dashboard to either."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar

from tests.faults.injectors import hosts, network
from tests.faults.matrix import ON_TARGET, Expected, Fault, register
from tests.faults.scene import SOURCE, TARGET, Scene
from tests.faults.watch import received_bytes

SHORT_SECONDS = 20.0
LONG_SECONDS = 600.0
#: the setting for faults of the default run: a host is lost after this long
LOST_AFTER_SECONDS = 10
ANSWERS_AGAIN = r"[Rr]e-?attached after \d+ s"
GOES_ON = r"source does not respond to dbops\. The copy continues"
HOLDS_STAY = r"Lost since .* The holds stay"
#: steps that talk to the target's host or server, after it was touched
TARGET_STEPS = tuple(step for step in ON_TARGET if step not in ("release", "clean-up"))


class Cut(Fault):
    """A cut lasts for ``seconds``; ``for_good`` until the rebuild has ended."""

    seconds: ClassVar[float] = SHORT_SECONDS
    for_good: ClassVar[bool] = False
    #: the link must be in use: the stream runs slowly
    brake = 0.1
    patience_seconds = 300.0

    def __init__(self) -> None:
        self.parts = ExitStack()

    def links(self, scene: Scene) -> Sequence[Sequence[network.Rule]]:
        raise NotImplementedError

    def inject(self, scene: Scene) -> None:
        self.parts.enter_context(network.cut(*self.links(scene)))

    def during(self, scene: Scene) -> None:
        if self.for_good:
            scene.wait_final(self.patience_seconds)
        else:
            time.sleep(self.seconds)

    def heal(self, scene: Scene) -> None:
        self.parts.close()


class StreamCut(Cut):
    """Between source and target. ``quiet`` says whether no byte has arrived while the link was cut."""

    steps = ("stream",)
    quiet = False

    def links(self, scene: Scene) -> Sequence[Sequence[network.Rule]]:
        return [network.stream_link(scene.source, scene.target)]

    def inject(self, scene: Scene) -> None:
        hosts.wait_for_backup(scene.source, scene.uid)
        super().inject(scene)

    def during(self, scene: Scene) -> None:
        time.sleep(3)  # what had arrived before is still being unpacked
        before = received_bytes(scene.target, scene.uid)
        super().during(scene)
        self.quiet = self.for_good or received_bytes(scene.target, scene.uid) == before

    def after(self, scene: Scene) -> None:
        assert self.quiet, "bytes arrived while the link was cut: it was not cut"


@register
class StreamCutShortly(StreamCut):
    name = "stream-link-cut-20s"
    title = "the link between source and target is cut for 20 s"
    seconds = SHORT_SECONDS - 3


@register
class StreamCutForGood(StreamCut):
    name = "stream-link-cut-for-good"
    title = "the link between source and target is cut and stays so"
    for_good = True

    def expect(self, scene: Scene) -> Expected:
        return Expected(("failed",), ("transport.lost",))


@register
class StreamCutForLong(StreamCut):
    name = "stream-link-cut-10min"
    title = "the link between source and target is cut for 10 minutes"
    only_full = True
    soaks = False
    seconds = LONG_SECONDS
    patience_seconds = LONG_SECONDS + 300

    def during(self, scene: Scene) -> None:
        time.sleep(self.seconds)
        self.quiet = True

    def expect(self, scene: Scene) -> Expected:
        return Expected(("failed",), ("transport.lost",))


@register
class ReplicationCut(Cut):
    name = "replication-link-cut-20s"
    title = "the target's server cannot reach the source's for 20 s while it catches up there"
    steps = ("start", "catch-up")
    telling = "catch-up"

    def links(self, scene: Scene) -> Sequence[Sequence[network.Rule]]:
        return [network.stream_link(scene.source, scene.target)]


class DashboardCut(Cut):
    """From the dashboard to hosts. Where something may have been changed already, the rebuild continues afterwards."""

    steps = TARGET_STEPS
    hosts: ClassVar[tuple[str, ...]]

    def links(self, scene: Scene) -> Sequence[Sequence[network.Rule]]:
        return [network.dashboard_link(scene.stack.lab.host(name)) for name in self.hosts]


@register
class TargetSilentShortly(DashboardCut):
    name = "dashboard-target-cut-20s"
    title = "the dashboard cannot reach the target for 20 s"
    hosts = (TARGET,)

    def expect(self, scene: Scene) -> Expected:
        return Expected(events=(ANSWERS_AGAIN,))


@register
class SourceSilentShortly(DashboardCut):
    name = "dashboard-source-cut-20s"
    title = "the dashboard cannot reach the source for 20 s"
    steps = ("stream", "release")
    hosts = (SOURCE,)

    def expect(self, scene: Scene) -> Expected:
        return Expected(
            events=(GOES_ON, r"source responds to dbops again") if scene.step == "stream" else (ANSWERS_AGAIN,)
        )


class Lost(DashboardCut):
    """The cut lasts for longer than a host may be silent."""

    settings: ClassVar[dict[str, str]] = {"DBOPS_LOST_AFTER_SECONDS": str(LOST_AFTER_SECONDS)}

    def during(self, scene: Scene) -> None:
        scene.wait_for_event(HOLDS_STAY, 60 + LOST_AFTER_SECONDS)
        time.sleep(5)
        assert scene.rebuild()["status"] == "lost"
        holds = scene.stack.rows("SELECT i.name FROM dbops_hold h JOIN dbops_instance i ON i.id = h.instance_id")
        assert {row["name"] for row in holds} == {SOURCE, TARGET}, holds

    def expect(self, scene: Scene) -> Expected:
        return Expected(events=(HOLDS_STAY, ANSWERS_AGAIN))


@register
class TargetLost(Lost):
    name = "dashboard-target-lost"
    title = "the dashboard cannot reach the target until it is lost, then it can"
    hosts = (TARGET,)


@register
class SourceLost(Lost):
    name = "dashboard-source-lost"
    title = "the dashboard cannot reach the source until it is lost, then it can"
    steps = ("stream", "release")
    hosts = (SOURCE,)


@register
class BothLost(Lost):
    name = "dashboard-both-lost"
    title = "the dashboard can reach neither source nor target until they are lost, then it can"
    steps = ("stream",)
    hosts = (SOURCE, TARGET)


@register
class BothSilentForLong(DashboardCut):
    name = "dashboard-both-cut-10min"
    title = "the dashboard can reach neither source nor target for 10 minutes"
    steps = ("stream",)
    hosts = (SOURCE, TARGET)
    only_full = True
    soaks = False
    seconds = LONG_SECONDS
    patience_seconds = LONG_SECONDS + 300

    def expect(self, scene: Scene) -> Expected:
        return Expected(events=(HOLDS_STAY, ANSWERS_AGAIN))
