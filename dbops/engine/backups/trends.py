"""Find unusual backup runs, and compute the scales of trend charts.

Unusual means flagged when the run ended (``flags``). The median and p90 lines are those that predict backup windows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import ceil

from dbops.engine.backups.flags import RunFlag
from dbops.engine.states import RunStatus

#: Maximum number of lines above zero on a scale.
SCALE_LINES = 3
MINUTE, HOUR, DAY = 60, 3600, 86400
SECONDS_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(MINUTE * number for number in (1, 2, 5, 10, 15, 30)),
    *(HOUR * number for number in (1, 2, 3, 4, 6, 8, 12)),
    *(DAY * number for number in (1, 2, 5, 10, 20, 50)),
)
#: Powers of two, like the units: 512 GiB, 1 TiB, 1.5 TiB.
BYTES_STEPS = tuple(float(2**power) for power in range(64))

#: Statuses that are always unusual.
ODD_ENDS = (RunStatus.FAILED, RunStatus.MISSED, RunStatus.CANCELLED)


class Figure(StrEnum):
    """The drawn figure of a run."""

    SECONDS = "seconds"
    BYTES = "bytes"


#: Which code gives a run with several codes its shape, by figure.
_FIRST = {
    Figure.SECONDS: (*ODD_ENDS, RunFlag.TOO_LONG, RunFlag.LATE, RunFlag.SMALL, RunFlag.LARGE),
    Figure.BYTES: (*ODD_ENDS, RunFlag.SMALL, RunFlag.LARGE, RunFlag.TOO_LONG, RunFlag.LATE),
}


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run. ``at`` is its start, or its due time if it never started. Unknown figures are ``None``."""

    run: int
    at: datetime
    status: str
    flags: tuple[str, ...] = ()
    seconds: float | None = None
    bytes: float | None = None

    @property
    def codes(self) -> tuple[str, ...]:
        """Return the codes of an unusual run: its status first, then its flags."""
        return (*(status.value for status in ODD_ENDS if status == self.status), *self.flags)

    def figure(self, figure: Figure) -> float | None:
        return self.seconds if figure is Figure.SECONDS else self.bytes

    def mark(self, figure: Figure) -> str:
        """Return the code of the run's shape; ``""`` for a normal run."""
        return next((str(code) for code in _FIRST[figure] if code in self.codes), "")


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale from 0 to ``top``, with lines at each multiple of ``step``."""

    step: float
    top: float

    @property
    def lines(self) -> tuple[float, ...]:
        return tuple(self.step * number for number in range(1, round(self.top / self.step) + 1))

    def share(self, value: float) -> float:
        """Return the position of a value from 0 (bottom) to 1 (top)."""
        return min(1.0, max(0.0, value / self.top))


def scale(values: Iterable[float], figure: Figure) -> Scale:
    """Return a scale of round numbers that fits all values."""
    most = max([*values, 0.0])
    steps = SECONDS_STEPS if figure is Figure.SECONDS else BYTES_STEPS
    step = next((item for item in steps if most <= SCALE_LINES * item), steps[-1])
    return Scale(step, step * max(1, ceil(most / step)))


def odd_ones(runs: Sequence[PastRun]) -> list[PastRun]:
    """Return the unusual runs, newest first."""
    return sorted((run for run in runs if run.codes), key=lambda run: run.at, reverse=True)
