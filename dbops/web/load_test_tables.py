"""The figures of load tests as tables and sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbops.engine.flavors.versions import product_name
from dbops.engine.load_tests.comparison import COMPARED, Ratio, Verdict, compare_reports
from dbops.engine.load_tests.knee import Knee, KneeKind
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.planning import Axis
from dbops.engine.load_tests.report import report_rows
from dbops.engine.load_tests.rounds import Round
from dbops.queries.load_test_pages import KNEE_OF, Conclusion
from dbops.web.charts.load_tests import count_text, ms_text

Report = Mapping[str, Any]

#: Waits shown for each step.
WAITS_SHOWN = 5
#: Names of the arms.
ARMS = {"a": "A", "b": "B", "a1": "A/A, first", "a2": "A/A, second"}
#: Percentiles of the tables, with their titles.
DURATIONS = {
    "P50": "P50",
    "P75": "P75",
    "P95": "P95",
    "P99": "P99",
    "P999": "P99.9",
    "Avg": "Average",
    "Max": "Max",
}
_UNITS = {Axis.SCHEMAS: "schemas", Axis.RATE: "a second", Axis.THREADS: "threads"}
#: What copies of a schema lack: of several and of one.
_LOSSES = {
    "ForeignKeys": ("foreign keys", "foreign key"),
    "Triggers": ("triggers", "trigger"),
    "ViewsAndSequences": ("views and sequences", "view or sequence"),
    "TablesElsewhere": ("tables with rows elsewhere", "table with rows elsewhere"),
}
_VERDICTS = {
    Verdict.FASTER: "B is faster.",
    Verdict.SLOWER: "B is slower.",
    Verdict.NO_DIFFERENCE: "No difference shown.",
    Verdict.NOT_ENOUGH: "Not enough valid pairs of A/B and A/A for a verdict.",
    Verdict.NOISY: "The machine is too noisy: two rounds with the same options differ.",
}


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One row of figures: a step, a round or the total. ``cells``: title and text of each figure."""

    level: str
    title: str
    cells: tuple[tuple[str, str], ...]
    is_valid: bool
    reasons: tuple[str, ...]
    waits: tuple[tuple[str, str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One step of two load tests. ``cells``: title, the first one's figure, the second one's, and their ratio.

    ``invalid``: which of them has rounds that are not valid (``first``, ``second``), and why.
    """

    title: str
    cells: tuple[tuple[str, str, str, str], ...]
    invalid: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WholeTable:
    """The exported table, with the header apart."""

    titles: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str], ...], ...]


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan: its conditions in words, and its rounds."""

    number: int
    arm: str
    conditions: str
    options: str
    rounds: int
    seconds: int
    warm_up_seconds: int


def step_rows(found: Conclusion) -> list[FigureRow]:
    """Return a row for each step and one for the total."""
    if not found.report:
        return []
    steps = [_row("step", step_title(step, found.axis), step) for step in found.report["Steps"]]
    return [*steps, _row("total", "Total", found.report["Total"])]


def round_rows(found: Conclusion) -> list[FigureRow]:
    """Return a row for each finished round."""
    return [
        _row("round", f"{line['Round']}: {step_title(line, found.axis)}", line)
        for line in found.report.get("Rounds", ())
    ]


def whole_table(report: Report) -> WholeTable | None:
    """Return the exported table; ``None`` before the first round has ended."""
    if not report:
        return None
    titles, *rows = report_rows(report)
    names = tuple(str(title) for title in titles)
    return WholeTable(names, tuple(tuple(zip(names, map(_cell, row), strict=True)) for row in rows))


def step_title(line: Report, axis: Axis | None) -> str:
    """Return the name of a step or round: ``600 schemas``, ``B, pair 3``."""
    if axis is None:
        pair = f", pair {line['Pair']}" if line.get("Pair") else ""
        return f"{ARMS.get(line['Arm'], line['Arm'])}{pair}"
    value = {Axis.SCHEMAS: "TargetSchemaCount", Axis.RATE: "WantedRate", Axis.THREADS: "ParallelCount"}[axis]
    return _with_unit(line[value], axis)


def round_title(one: Round, axis: Axis | None) -> str:
    """Return the conditions of a planned round."""
    if axis is None:
        return f"{ARMS.get(one.arm, one.arm)}, pair {one.pair}"
    value = {Axis.SCHEMAS: one.schemas, Axis.RATE: one.rate, Axis.THREADS: one.threads}[axis]
    return _with_unit(value, axis)


def _with_unit(value: float | None, axis: Axis) -> str:
    unit = _UNITS[axis]
    return f"{count_text(value)} {unit.removesuffix('s') if value == 1 else unit}"


def planned_steps(plan: LoadTestPlan) -> list[PlannedStep]:
    """Return the steps of a plan, in their order."""
    groups: dict[tuple[int, str], list[Round]] = {}
    for one in plan.rounds:
        groups.setdefault((one.step, one.arm), []).append(one)
    return [_planned(rounds) for _, rounds in sorted(groups.items())]


def _planned(rounds: Sequence[Round]) -> PlannedStep:
    first = rounds[0]
    options = " ".join(f"{name}={value}" for name, value in first.options)
    names = (("schema", first.schemas), ("thread", first.threads))
    counts = [f"{count_text(value)} {name}{'s' if value > 1 else ''}" for name, value in names if value]
    conditions = ", ".join([*counts, *([f"{count_text(first.rate)} a second"] if first.rate else [])])
    return PlannedStep(
        first.step, ARMS.get(first.arm, ""), conditions, options, len(rounds), first.seconds, first.warm_up_seconds
    )


def losses_text(losses: Mapping[str, int]) -> str:
    """Return what the copies of a schema lack: ``3 foreign keys, 1 trigger``; empty for nothing."""
    return ", ".join(f"{count_text(count)} {_LOSSES[name][count == 1]}" for name, count in losses.items())


def knee_text(knee: Knee | None, axis: Axis | None) -> str:
    """Return the knee in a sentence; empty for a test that looks for none."""
    if knee is None or axis is None:
        return ""
    unit = _UNITS[axis]
    if knee.kind is KneeKind.UNKNOWN:
        return f"Knee unknown: {knee.reason}."
    if knee.kind is KneeKind.NONE:
        return f"No knee shown: {KNEE_OF} does not leave its budget of twice the first step."
    kind = {KneeKind.WALL: "a wall", KneeKind.SLOPE: "a slope", KneeKind.LIMIT: "an even rise to the limit"}[knee.kind]
    return (
        f"{KNEE_OF} leaves its budget between {count_text(knee.after)} and {count_text(knee.at)} {unit}: {kind}, "
        f"{_number(knee.ratio)} times the first step’s ({_number(knee.low)} to {_number(knee.high)})."
    )


def verdict_text(verdict: Verdict) -> str:
    return _VERDICTS[verdict]


def ratio_text(found: Ratio) -> str:
    """Return ``1.20 (1.03 to 1.41), 4 pairs``."""
    if found.ratio is None:
        return "Unknown"
    interval = f" ({found.low:.2f} to {found.high:.2f})" if found.low is not None and found.high is not None else ""
    return f"{found.ratio:.2f}{interval}, {found.pairs} pair{'s' if found.pairs != 1 else ''}"


def compared_rows(first: Conclusion, second: Conclusion) -> list[ComparedRow]:
    """Return the steps of two load tests side by side."""
    if not first.report or not second.report:
        return []
    return [_compared(line) for line in compare_reports(first.report, second.report)]


def plan_differences(then: LoadTestPlan, now: LoadTestPlan) -> list[tuple[str, str, str]]:
    """Return what differs between two plans: name, and both values as text."""
    both = zip(_plan_values(then), _plan_values(now), strict=True)
    return [(name, before, after) for (name, before), (_, after) in both if before != after]


def _plan_values(plan: LoadTestPlan) -> list[tuple[str, str]]:
    return [
        ("Host", plan.host),
        ("TiDB node", f"{plan.tidb.user}@{plan.tidb.address}:{plan.tidb.port}" if plan.tidb else "none"),
        ("TiDB cluster", f"{plan.tidb.cluster}: {', '.join(plan.tidb.nodes)}" if plan.tidb else "none"),
        ("Table", plan.tidb.table if plan.tidb else "none"),
        ("Load generator’s host", plan.generator_host),
        ("Server", f"{product_name(plan.flavor)} {plan.version}"),
        ("Backup", f"run {plan.run}: {plan.path}" if plan.run else "none: an empty server"),
        ("Directory", plan.place),
        ("Server options", " ".join((*plan.server, *plan.initialise))),
        ("Server memory", f"{plan.server_memory_bytes} bytes"),
        ("Load generator memory", f"{plan.generator_memory_bytes} bytes"),
        ("Cores", f"{plan.server_cores} and {plan.generator_cores}"),
        ("Disk", f"{plan.needed_bytes} bytes"),
        ("Longest time", f"{plan.most_seconds} s"),
        ("Rounds", str(len(plan.rounds))),
        (
            "Top statements",
            f"{len(plan.digests.used)} used, reading {plan.digests.sha256[:12]}" if plan.digests.sha256 else "none",
        ),
        ("Findings", ", ".join(sorted({one.code for one in plan.findings})) or "none"),
    ]


def _row(level: str, title: str, line: Report) -> FigureRow:
    return FigureRow(level, title, tuple(_cells(line)), bool(line["IsValid"]), tuple(line["Reasons"]), _waits(line))


def _cells(line: Report) -> list[tuple[str, str]]:
    cells = [
        ("Statements", count_text(line["QueryCount"])),
        ("Errors", count_text(line["ErrorQueryCount"])),
        ("Per second", count_text(line["TotalQPS"])),
    ]
    if line["WantedRate"]:
        cells.append(("Achieved rate", f"{count_text(line['AchievedRate'])} of {count_text(line['WantedRate'])}"))
    uncertain = line["Duration"].get("Uncertain", ())
    cells += [
        (title, f"{ms_text(line['Duration'][name])}{' ?' if name in uncertain else ''}")
        for name, title in DURATIONS.items()
    ]
    return [
        *cells,
        ("Server cores", _cores(line["ServerCores"])),
        ("Generator cores", _cores(line["GeneratorCores"])),
        ("Stalled", f"{line['StalledSeconds']} s"),
    ]


def _cores(value: float | None) -> str:
    return "—" if value is None else f"{value:.2f}"


def _waits(line: Report) -> tuple[tuple[str, str, str, str], ...]:
    """Return event, share of the threads' time, count and mean of the largest waits."""
    return tuple(
        (
            wait["Event"],
            f"{100 * wait['Share']:.1f} %",
            count_text(wait["Count"]),
            f"{1e6 * wait['Seconds'] / wait['Count']:,.1f} µs" if wait["Count"] else "—",
        )
        for wait in line.get("Waits", ())[:WAITS_SHOWN]
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _compared(line: Report) -> ComparedRow:
    parts = [
        f"{count_text(line['TargetSchemaCount'])} schemas" if line["TargetSchemaCount"] else "",
        f"{count_text(line['ParallelCount'])} threads" if line["ParallelCount"] else "",
        f"{count_text(line['WantedRate'])} a second" if line["WantedRate"] else "",
        ARMS.get(line["Arm"], line["Arm"] or ""),
    ]
    cells = [
        (
            "Per second" if name == "TotalQPS" else DURATIONS[name],
            _figure(line["First"], name),
            _figure(line["Second"], name),
            _plain_ratio(line["Ratios"][name]),
        )
        for name in COMPARED
    ]
    invalid = [
        (name.lower(), " ".join(step["Reasons"]))
        for name in ("First", "Second")
        if (step := line[name]) and not step["IsValid"]
    ]
    return ComparedRow(", ".join(part for part in parts if part), tuple(cells), tuple(invalid))


def _figure(step: Report | None, name: str) -> str:
    if step is None:
        return "—"
    return count_text(step["TotalQPS"]) if name == "TotalQPS" else ms_text(step["Duration"][name])


def _plain_ratio(found: Report) -> str:
    if found["Ratio"] is None:
        return "—"
    interval = f" ({found['Low']:.2f} to {found['High']:.2f})" if found["Low"] is not None else ""
    return f"{found['Ratio']:.2f}{interval}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f}"
