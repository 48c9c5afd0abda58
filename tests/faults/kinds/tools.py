"""Backup tools that lie, and tools that break in the middle: never a success, always the first real cause."""

import os
from typing import ClassVar

from tests.faults.injectors import tools
from tests.faults.matrix import Expected, Fault, register
from tests.faults.scene import SOURCE, Scene
from tests.programs import backup_tool
from tests.sudo_account import VARIABLE


def order_of_source(scene: Scene, order: str) -> None:
    """Let the source's backup tool do that from now on; return when a probe has found the tool that can."""
    program = str(tools.install(scene.source))

    def found() -> bool:
        known = (scene.stack.facts(SOURCE)["host"] or {}).get("tools", {})
        return known.get(backup_tool(scene.source), {}).get("path") == program

    scene.stack.wait_for_probe("a probe that finds the other tool", found, SOURCE)
    tools.order(scene.source, order)


class Tool(Fault):
    """The source's backup tool does what ``order`` says."""

    steps = ("stream",)
    brake = None
    order: ClassVar[str]
    status: ClassVar[str] = "failed"
    codes: ClassVar[tuple[str, ...]] = ()
    #: exit statuses that both ends must have reported; ``...`` is any other than 0
    statuses: ClassVar[dict[str, object]] = {}

    def prepare(self, scene: Scene) -> None:
        order_of_source(scene, self.order)

    def inject(self, scene: Scene) -> None:
        """The order was there before."""

    def tidy(self, scene: Scene) -> None:
        tools.order(scene.source, "")

    def expect(self, scene: Scene) -> Expected:
        return Expected((self.status,), self.codes)

    def after(self, scene: Scene) -> None:
        if self.status == "succeeded":
            return
        result = scene.stream_result()
        assert result is not None, "it was not the stream that failed"
        found = result["exit_statuses"]
        for end, status in self.statuses.items():
            assert found[end] == status or (status is ... and found[end] not in (0, None)), f"{end}: {found}"


@register
class ToolBehindAScript(Tool):
    """The control: it is not the script in between that makes rebuilds fail."""

    name = "tool-behind-a-script"
    title = "the backup tool runs below a script (the control of these faults)"
    order = "runs below a script"
    status = "succeeded"


@register
class CutAtAChunk(Tool):
    name = "stream-cut-at-a-chunk"
    title = "the stream ends at the end of a chunk, every exit status is 0"
    order = "cut at a chunk's end"
    codes = ("stream.truncated",)
    statuses: ClassVar[dict[str, object]] = {"source backup": 0, "transport": 0, "unpack": 0}


@register
class EmptyStream(Tool):
    name = "stream-empty"
    title = "the backup completes and nothing of it is sent, every exit status is 0"
    order = "nothing at all"
    codes = ("stream.truncated",)
    statuses: ClassVar[dict[str, object]] = {"source backup": 0, "transport": 0, "unpack": 0}


@register
class SilentTool(Tool):
    name = "tool-does-nothing"
    title = "the backup tool says and sends nothing, its exit status is 0"
    order = "not even a log"
    codes = ("stream.not_completed",)
    statuses: ClassVar[dict[str, object]] = {"source backup": 0, "transport": 0, "unpack": 0}


@register
class ErrorPage(Tool):
    name = "stream-error-page"
    title = "an error page in place of the stream, the exit status is 0"
    order = "an error page"
    codes = ("stream.garbage",)
    statuses: ClassVar[dict[str, object]] = {"source backup": 0, "unpack": ...}


@register
class Banner(Tool):
    name = "stream-banner"
    title = "a banner before the stream"
    order = "a banner first"
    codes = ("stream.garbage",)
    statuses: ClassVar[dict[str, object]] = {"unpack": ...}


@register
class NeverCompleted(Tool):
    name = "tool-not-completed"
    title = "the whole stream arrives, but the tool never says 'completed OK!'"
    order = "never says completed"
    codes = ("stream.not_completed",)
    statuses: ClassVar[dict[str, object]] = {"source backup": 0, "transport": 0, "unpack": 0}


@register
class StatusLost(Tool):
    name = "tool-status-lost"
    title = "the whole stream arrives, but the tool's exit status is lost"
    order = "its status is lost"
    #: sudo ends as the program that it runs
    codes = ("stream.unverified", *(("stream.killed",) if os.environ.get(VARIABLE) else ()))
    statuses: ClassVar[dict[str, object]] = {"source backup": None, "unpack": 0}

    def inject(self, scene: Scene) -> None:
        tools.lose_status(scene.source)


@register
class FewOpenFiles(Tool):
    name = "tool-open-files"
    title = "the backup tool may open 16 files"
    order = "few open files"
    codes = ("backup.open_files",)
    statuses: ClassVar[dict[str, object]] = {"source backup": ...}
