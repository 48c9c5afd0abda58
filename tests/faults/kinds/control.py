"""Nothing breaks: what is asserted after each fault must hold without one, too."""

from tests.faults.matrix import Fault, register
from tests.faults.scene import Scene


@register
class NoFault(Fault):
    name = "none"
    title = "nothing (the control)"
    steps = ("fingerprint",)
    telling = "fingerprint"

    def inject(self, scene: Scene) -> None: ...
