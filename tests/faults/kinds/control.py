"""Nothing breaks: what is asserted after each fault must hold without one, too."""

from tests.faults.matrix import Fault, register
from tests.faults.scene import Scene


@register
class NoFault(Fault):
    name = "none"
    title = "nothing (the control)"
    steps = ("verify",)
    telling = "verify"  # a step that lasts: nothing is injected, so any will do

    def inject(self, scene: Scene) -> None: ...
