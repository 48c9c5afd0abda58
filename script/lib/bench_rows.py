"""Rows of the benchmark table: measurements, goals and their text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

Samples = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for the median. ``unit`` follows each number; ``""`` for ratios."""

    value: float
    at_least: bool = False
    unit: str = ""

    def is_met(self, value: float) -> bool:
        return value >= self.value if self.at_least else value <= self.value

    def describe(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.value:g}{self.unit}"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    Args:
        key: short name, for ``--only``.
        title: the compared operations.
        goal: bound for the median of ``values``.
        values: one per round; empty if not measured.
        note: why the row was not measured, or what limits it.
    """

    key: str
    title: str
    goal: Goal
    values: tuple[float, ...] = ()
    note: str = ""

    def line(self) -> str:
        if not self.values:
            return f"| {self.title} | {self.goal.describe()} | – | – | 0 | not measured |"
        middle = median(self.values)
        places = 1 if middle >= 10 else 2
        shown, low, high = (f"{value:.{places}f}" for value in (middle, min(self.values), max(self.values)))
        unit, reached = self.goal.unit, "yes" if self.goal.is_met(middle) else "**no**"
        return f"| {self.title} | {self.goal.describe()} | {shown}{unit} | {low} to {high} | {len(self.values)} | {reached} |"


#: By key: the compared operations and the bound.
GOALS: dict[str, tuple[tuple[str, Goal], ...]] = {
    "stream": (("stream step / typed by hand, best cipher", Goal(1.03)),),
    "default-cipher": (("stream step / typed by hand, ssh's default cipher", Goal(0.70)),),
    "restore": (("restoring a gzip dump / rebuild by stream, until attached", Goal(24, at_least=True)),),
    "archive": (("rebuild by stream / by archive, one disk", Goal(0.6)),),
    "backup": (
        ("mysqldump and gzip / physical backup and zstd, time", Goal(16, at_least=True)),
        ("physical backup and zstd / mysqldump and gzip, size", Goal(1.3)),
    ),
    "around": (("all of ours around the data: click to first byte, last byte to serving", Goal(3, unit=" s")),),
    "worker": (
        ("worker while it follows a stream", Goal(2, unit=" % of a core")),
        ("memory of its largest process", Goal(150, unit=" MB")),
    ),
    "clone": (("dump and restore / clone, MySQL, until attached", Goal(15, at_least=True)),),
    "shared-read": (
        ("shared read to three targets / one target, each link at the same rate", Goal(1.15)),
        ("shared read to three targets / three in a row", Goal(0.40)),
    ),
    "prepare": (("prepare, ours / the tool's default", Goal(0.7)),),
    "catch-up": (("catch-up, relaxed settings / durable ones", Goal(0.7)),),
}


#: The page's explanation of its rows.
HOW = """\
## How it is measured

* Before each run, everything is written to disk (`sync`), and the page cache takes all free memory
  (`script/lib/bench_memory.py`). A virtual machine's first write to reclaimed memory is several times slower than
  others.
* Each round starts with another contestant: the one after a large copy is slower. By hand, too, the last copy is
  removed only when the new one exists.
* **The stream step** is the step on the rebuild's page: start of the job, copy, detection of its end, and the check
  that the copy is complete. By hand: `ssh SOURCE "mariadb-backup --backup --stream=xbstream ..." | mbstream -x`, as
  root, with the lab's key and one thread at each end (the default of both tools), without any check.
* **Until attached**: from the click until the replica replicates from the primary. Afterwards the replica is watched
  (2 s here, by default 60 s), and the old data is removed.
* **Around the data**: from the click to the first file on the target, plus from the tool's end on the source to a
  replicating replica, without prepare and catch-up. Stop and start of the target's server are included.
* **The worker** drives rebuilds (`script/run worker ticks`). It is measured over a stream that a rate limit stretches
  to a minute.
* **A dump is restored** with `zcat FILE | mariadb` into a server with a buffer pool of 1 GiB and no binary log. The
  rebuild's time is the time until attached.
* **The regular backup** is of sysbench's tables with one secondary index; a dump holds no index. From start to
  publication: written, checksummed, on disk. The dump is `mariadb-dump --single-transaction | gzip`.
* **The archive** is the physical backup of the same round, removed from the page cache before it is read.
* **MySQL with XtraBackup** has no row: no package registry has the tool. Where it is installed, `script/bench --flavor mysql-5.7`
  and `script/bench prepare --flavor mysql-5.7` measure the same. Neither was run on a quiet machine yet.
"""


def row_of(key: str, values: Sequence[float], limit: str = "", *, number: int = 0) -> Row:
    """Return a measured row. ``limit``, the limiting factor, is shown only if the goal is missed."""
    title, goal = GOALS[key][number]
    return Row(key, title, goal, tuple(values), "" if goal.is_met(median(values)) else limit)


def rows_without(key: str, why: str) -> tuple[Row, ...]:
    """Return rows that were not measured, with the reason."""
    return tuple(Row(key, title, goal, note=f"not measured: {why}") for title, goal in GOALS[key])


@dataclass(frozen=True, slots=True)
class Group:
    """Rows measured on one lab, with the seconds behind them. ``facts`` describes the lab in one sentence."""

    title: str
    rows: tuple[Row, ...]
    samples: Samples = field(default_factory=dict)
    facts: str = ""


def table(samples: Samples) -> list[str]:
    lines = ["| what | median s | min | max | n |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {median(values):.2f} | {min(values):.2f} | {max(values):.2f} | {len(values)} |"
        for name, values in samples.items()
    ]
    return lines


def pairs(left: Sequence[float], right: Sequence[float]) -> tuple[float, ...]:
    """Return left / right per round, so that drift of the machine cancels out."""
    return tuple(a / b for a, b in zip(left, right, strict=False))


def median_of_pairs(left: Sequence[float], right: Sequence[float]) -> float:
    return median(pairs(left, right))


def against_median(left: Sequence[float], right: Sequence[float]) -> tuple[float, ...]:
    """Return each of ``left`` over the median of ``right``, for measurements from separate rounds."""
    middle = median(right)
    return tuple(value / middle for value in left)


def without(samples: Samples, *names: str) -> Samples:
    return {name: values for name, values in samples.items() if name not in names}


def document(headline: str, groups: Iterable[Group]) -> str:
    """Return the text of docs/reference/benchmarks.md: the table, the limits of missed goals, and the seconds."""
    groups = list(groups)
    rows = [row for group in groups for row in group.rows]
    lines = [
        "# Benchmarks",
        "",
        "`script/bench table` writes this page: every row in one run, alternating with its comparison on one machine.",
        "Compare ratios, not seconds: seconds depend on the machine. No test asserts a time.",
        "For single settings, see [tuning measurements](measurements.md).",
        "",
        headline,
        "",
        "| what | goal | median | min to max | n | reached |",
        "|---|---|---|---|---|---|",
        *(row.line() for row in rows),
    ]
    if notes := [f"* {row.title}: {row.note}" for row in rows if row.note]:
        lines += ["", "## Limits: rows that missed their goal or were not measured", "", *notes]
    lines += ["", *HOW.splitlines()]
    for group in groups:
        if group.samples:
            lines += ["", f"## {group.title}", ""]
            lines += [group.facts, ""] if group.facts else []
            lines += table(group.samples)
    return "\n".join(lines) + "\n"
