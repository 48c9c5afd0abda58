"""Backup runs over time: which are out of the ordinary, and on what scale they are drawn. Pure: runs in, points and lines out.

What was usual is not judged here: ``run_flags`` did that when a run ended, and its word stays. The lines for the median and the p90
are those that windows are predicted from.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import ceil

from dbops.engine.backup_states import RunStatus
from dbops.engine.backups.flags import RunFlag

#: A scale has at most so many lines above zero.
SCALE_LINES = 3
MINUTE, HOUR, DAY = 60, 3600, 86400
SECONDS_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(MINUTE * number for number in (1, 2, 5, 10, 15, 30)),
    *(HOUR * number for number in (1, 2, 3, 4, 6, 8, 12)),
    *(DAY * number for number in (1, 2, 5, 10, 20, 50)),
)
#: Of two, as the units are: 512 GiB, 1 TiB, 1.5 TiB.
BYTES_STEPS = tuple(float(2**power) for power in range(64))

#: A run that ended so is out of the ordinary whatever its figures are.
ODD_ENDS = (RunStatus.FAILED, RunStatus.MISSED, RunStatus.CANCELLED)


class Figure(StrEnum):
    """What of a run is drawn."""

    SECONDS = "seconds"
    BYTES = "bytes"


#: Which word names the shape of a run that has several, by what is drawn: the one that explains the height of its point.
_FIRST = {
    Figure.SECONDS: (*ODD_ENDS, RunFlag.TOO_LONG, RunFlag.LATE, RunFlag.SMALL, RunFlag.LARGE),
    Figure.BYTES: (*ODD_ENDS, RunFlag.SMALL, RunFlag.LARGE, RunFlag.TOO_LONG, RunFlag.LATE),
}


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run. ``at`` is when it began, and where it never did, when it was due. Unknown figures are ``None``."""

    run: int
    at: datetime
    status: str
    flags: tuple[str, ...] = ()
    seconds: float | None = None
    bytes: float | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """What is out of the ordinary, as codes: how it ended first, then its flags."""
        return (*(status.value for status in ODD_ENDS if status == self.status), *self.flags)

    def figure(self, figure: Figure) -> float | None:
        return self.seconds if figure is Figure.SECONDS else self.bytes

    def mark(self, figure: Figure) -> str:
        """Return the code that its shape stands for; ``""`` for a run like any other."""
        return next((str(code) for code in _FIRST[figure] if code in self.words), "")


@dataclass(frozen=True, slots=True)
class Scale:
    """From 0 to ``top``, with lines at each multiple of ``step``."""

    step: float
    top: float

    @property
    def lines(self) -> tuple[float, ...]:
        return tuple(self.step * number for number in range(1, round(self.top / self.step) + 1))

    def share(self, value: float) -> float:
        """Return where a value stands, from 0 (bottom) to 1 (top)."""
        return min(1.0, max(0.0, value / self.top))


def scale(values: Iterable[float], figure: Figure) -> Scale:
    """Return a scale of round numbers on which every value has its place."""
    most = max([*values, 0.0])
    steps = SECONDS_STEPS if figure is Figure.SECONDS else BYTES_STEPS
    step = next((item for item in steps if most <= SCALE_LINES * item), steps[-1])
    return Scale(step, step * max(1, ceil(most / step)))


def odd_ones(runs: Sequence[PastRun]) -> list[PastRun]:
    """Return the runs that are out of the ordinary, newest first."""
    return sorted((run for run in runs if run.words), key=lambda run: run.at, reverse=True)
