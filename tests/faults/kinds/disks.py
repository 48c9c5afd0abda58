"""Disks that fill up: the target's data, the work directory of either host, the source's temporary directory."""

from contextlib import ExitStack
from typing import ClassVar

from lab.hosts import LabHost
from tests.faults.injectors import disks, tools
from tests.faults.kinds.tools import order_of_source
from tests.faults.matrix import Expected, Fault, register
from tests.faults.scene import SOURCE, TARGET, Scene


class Disk(Fault):
    """A small disk of its own for some directory, from before the rebuild until its end."""

    steps = ("stream",)
    brake = 0.1
    codes: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.parts = ExitStack()

    def tidy(self, scene: Scene) -> None:
        self.parts.close()

    def expect(self, scene: Scene) -> Expected:
        return Expected(("failed",), self.codes)


@register
class TargetDataFull(Disk):
    """The room was there when the plan was made, and is gone when the data arrives."""

    name = "target-disk-full"
    title = "the target's data disk is full in the middle"
    steps = ("swap-datadir", "stream", "prepare")
    codes = ("stream.disk_full",)
    big, small = 2000, 30

    def prepare(self, scene: Scene) -> None:
        host = scene.target
        if host.server_pid() is not None:  # a failed rebuild before this one may have left no data to start on
            host.stop_server()
            self.parts.callback(host.start_server)
        self.parts.enter_context(disks.small(host.data_dir, self.big))
        self.parts.callback(host.stop_server)

        def seen() -> bool:
            facts = scene.stack.facts(TARGET)
            free = (facts["datadir"] or {}).get("free_bytes", 0)
            return facts["server"] is None and self.big * 0.9 <= free / disks.MEBIBYTE <= self.big

        scene.stack.wait_for_probe("the small disk to be read", seen, TARGET)

    def inject(self, scene: Scene) -> None:
        if scene.step == "swap-datadir":
            disks.resize(scene.target.data_dir, self.small)
        else:
            disks.shrink(scene.target.data_dir)

    def expect(self, scene: Scene) -> Expected:
        if scene.step == "prepare":
            return Expected(("failed", "succeeded"), ("stream.disk_full", "host.job", "prepare.not_completed"))
        return super().expect(scene)


class WorkFull(Disk):
    """The product's own directory on a host has no room left: not even for its logs."""

    name_of_host: ClassVar[str]

    def host(self, scene: Scene) -> LabHost:
        return scene.stack.lab.host(self.name_of_host)

    def prepare(self, scene: Scene) -> None:
        self.parts.enter_context(disks.small(self.host(scene).work_dir, 8))

    def inject(self, scene: Scene) -> None:
        disks.fill(self.host(scene).work_dir)


@register
class SourceWorkFull(WorkFull):
    name = "source-work-disk-full"
    title = "the disk of the work directory on the source is full: no log, no evidence"
    name_of_host = SOURCE


@register
class SourcePausedWorkFull(WorkFull):
    name = "paused-source-work-disk-full"
    title = "the same while the source is paused"
    name_of_host = SOURCE
    pauses = True


@register
class TargetWorkFull(WorkFull):
    name = "target-work-disk-full"
    title = "the disk of the work directory on the target is full"
    name_of_host = TARGET

    def expect(self, scene: Scene) -> Expected:
        return Expected(("succeeded", "failed"))


@register
class SourceTemporaryFull(Disk):
    """mariadb-backup streams its redo log and keeps nothing in its temporary directory; XtraBackup 2.4 would."""

    name = "source-tmpdir-full"
    title = "the backup tool's temporary directory on the source is full"

    def prepare(self, scene: Scene) -> None:
        folder = scene.source.folder / tools.TEMPORARY
        self.parts.enter_context(disks.small(folder, 1))
        disks.fill(folder)
        order_of_source(scene, "a full temporary directory")
        self.parts.callback(tools.order, scene.source, "")

    def inject(self, scene: Scene) -> None:
        """It is full from the beginning."""

    def expect(self, scene: Scene) -> Expected:
        return Expected(("succeeded",))


@register
class SourceServerTemporaryFull(Disk):
    """The server answers the backup tool's questions with tables on its disk: the tool ends before its first byte.

    A directory that is full before is found by the plan: the questions about the data fail, too.
    """

    name = "source-server-tmpdir-full"
    title = "the temporary directory of the source's server becomes full"
    steps = ("swap-datadir",)
    telling = "swap-datadir"
    codes = ("stream.disk_full",)

    def prepare(self, scene: Scene) -> None:
        self.parts.enter_context(disks.small(scene.source.tmp_dir, 1))

    def inject(self, scene: Scene) -> None:
        disks.fill(scene.source.tmp_dir)
