"""What a fault is, and the matrix of faults and steps."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from dbops.engine.methods import METHODS

if TYPE_CHECKING:
    from tests.faults.scene import Scene

#: "pause" does nothing where replication need not be paused: a scene in that step has a source that must be.
STEPS = tuple(step.name for step in METHODS["xbstream"].steps)
#: the steps in which something of the target has been destroyed and the end is not yet near
ON_TARGET = STEPS[STEPS.index("swap-datadir") :]


@dataclass(frozen=True, slots=True)
class Expected:
    """How a rebuild under a fault has to end.

    ``status`` and ``code`` (of the error) may allow several. ``events`` are regular expressions, each of which some line of the
    history must match. ``touched`` names hosts other than the target whose server or keys the fault itself changed.
    ``reattached`` says whether a driver must have re-attached within 30 s, and must have said so.
    ``starts`` is how often the target's server is started on the way to a success; the fault itself may do that once more.
    """

    status: tuple[str, ...] = ("succeeded",)
    code: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    reattached: bool = False
    touched: frozenset[str] = field(default_factory=frozenset)
    starts: int = 1


class Fault:
    """One way in which the world breaks. A new object for each run: what it must remember is its own attribute.

    In order: ``prepare`` (before the rebuild is requested), ``inject`` (the moment the step runs), ``during`` (the fault
    lasts), ``heal``, the rebuild's end, ``expect`` and ``after``. ``heal`` is called in any case and may be called twice;
    so is ``tidy``, after the end.
    """

    #: the name in the table, in kebab-case; unique
    name: ClassVar[str]
    #: one line for the table: what breaks
    title: ClassVar[str]
    #: the module's name, set by ``register``
    kind: ClassVar[str] = ""
    #: the steps that it can hit, and the one that tells most
    steps: ClassVar[tuple[str, ...]] = STEPS
    telling: ClassVar[str] = "stream"
    #: only with ``--full``: it takes minutes
    only_full: ClassVar[bool] = False
    #: whether the soak may use it: it takes less than about two minutes and needs no other lab
    soaks: ClassVar[bool] = True
    #: share of the time for which the stream may run while the fault lasts (0 holds it); ``None`` leaves it alone
    brake: ClassVar[float | None] = 0.0
    #: whether the source's replication has to be paused for this rebuild
    pauses: ClassVar[bool] = False
    #: settings of the worker, and those that only shorten what the default run waits for
    settings: ClassVar[dict[str, str]] = {}
    short_settings: ClassVar[dict[str, str]] = {}
    #: how long the rebuild may take from the request to its end
    patience_seconds: ClassVar[float] = 180.0

    def prepare(self, scene: "Scene") -> None: ...

    def inject(self, scene: "Scene") -> None:
        raise NotImplementedError

    def during(self, scene: "Scene") -> None:
        """Wait for as long as the fault lasts, and watch the rebuild during that time."""

    def heal(self, scene: "Scene") -> None: ...

    def tidy(self, scene: "Scene") -> None:
        """Undo what ``prepare`` did."""

    def expect(self, scene: "Scene") -> Expected:
        return Expected()

    def after(self, scene: "Scene") -> None:
        """Look at what only this fault can have left, after the rebuild's end. Raises ``AssertionError``."""


FAULTS: dict[str, type[Fault]] = {}


def register(fault: type[Fault]) -> type[Fault]:
    """Put a fault into the matrix (a decorator)."""
    if fault.name in FAULTS or fault.telling not in fault.steps or not set(fault.steps) <= set(STEPS):
        raise ValueError(f"fault {fault.name}: its name is taken, or its steps are not what they should be")
    fault.kind = fault.__module__.rpartition(".")[2]
    FAULTS[fault.name] = fault
    return fault


def cases(faults: Iterable[type[Fault]], *, full: bool) -> list[tuple[type[Fault], str]]:
    """Return each fault with its telling step, or with every step that it can hit; faults of equal settings follow each other."""
    grouped = sorted(faults, key=lambda fault: sorted((fault.settings | fault.short_settings).items()))
    if full:
        return [(fault, step) for fault in grouped for step in fault.steps]
    return [(fault, fault.telling) for fault in grouped if not fault.only_full]


def of_kinds(*kinds: str) -> list[type[Fault]]:
    return [fault for fault in FAULTS.values() if fault.kind in kinds]
