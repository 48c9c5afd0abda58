"""A bad link between source and target: far, narrow, cut at a byte, dirty. A proxy connects ssh and sshd."""

from contextlib import ExitStack
from typing import ClassVar

from tests.faults.injectors import proxy
from tests.faults.matrix import Expected, Fault, register
from tests.faults.scene import SOURCE, Scene

MEBIBYTE = 1024**2
#: into the tables, and far past what the trial of the way sends
AFTER_BYTES = 20 * MEBIBYTE


class Link(Fault):
    steps = ("stream",)
    brake = None
    status: ClassVar[str] = "failed"
    codes: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.parts = ExitStack()
        self.proxy: proxy.Proxy | None = None

    def conditions(self) -> proxy.Conditions:
        raise NotImplementedError

    def prepare(self, scene: Scene) -> None:
        self.proxy = proxy.before(scene.source, scene.target)
        self.proxy.conditions = self.conditions()
        self.parts.enter_context(proxy.running(self.proxy))
        lead_stream_over(scene, self.proxy.listen[0])
        self.parts.callback(lead_stream_over, scene, "")

    def inject(self, scene: Scene) -> None:
        """The link is like that from the beginning."""

    def tidy(self, scene: Scene) -> None:
        self.parts.close()

    def expect(self, scene: Scene) -> Expected:
        return Expected((self.status,), self.codes)

    @property
    def most_carried(self) -> int:
        return max(self.proxy.carried, default=0) if self.proxy else 0


def lead_stream_over(scene: Scene, address: str) -> None:
    """Write the address under which the target reaches the source, as a person does in the inventory."""
    scene.stack.write("UPDATE dbops_host SET stream_address = ? WHERE name = ?", address, SOURCE)


@register
class LinkFarAndNarrow(Link):
    """The control too: the copy goes through the proxy, and is whole."""

    name = "link-far-and-narrow"
    title = "20 ms there and back, 8 MB/s"
    status = "succeeded"

    def conditions(self) -> proxy.Conditions:
        return proxy.Conditions(delay_seconds=0.01, bytes_per_second=8e6, part_bytes=256 * 1024)

    def after(self, scene: Scene) -> None:
        assert self.most_carried > AFTER_BYTES, f"the stream did not go through the proxy: {self.proxy}"


@register
class LinkCutAtAByte(Link):
    name = "link-cut-at-a-byte"
    title = "the connection of the stream ends after exactly 20 MiB"
    codes = ("transport.lost",)

    def conditions(self) -> proxy.Conditions:
        return proxy.Conditions(cut_after_bytes=AFTER_BYTES)

    def after(self, scene: Scene) -> None:
        assert self.most_carried == AFTER_BYTES, f"it was not cut there: {self.proxy}"


@register
class LinkReset(LinkCutAtAByte):
    name = "link-reset"
    title = "the connection of the stream is reset after 20 MiB"

    def conditions(self) -> proxy.Conditions:
        return proxy.Conditions(cut_after_bytes=AFTER_BYTES, reset=True)


@register
class LinkDirty(Link):
    """SSH verifies every packet: nothing of it may reach the unpacking tool."""

    name = "link-dirty"
    title = "16 stray bytes arrive after 20 MiB"
    codes = ("transport.lost",)

    def conditions(self) -> proxy.Conditions:
        return proxy.Conditions(dirty_after_bytes=AFTER_BYTES)

    def after(self, scene: Scene) -> None:
        assert self.most_carried > AFTER_BYTES, f"nothing was put in: {self.proxy}"
