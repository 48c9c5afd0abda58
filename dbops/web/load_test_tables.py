"""The figures of load tests as tables and sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dbops.engine.flavors.versions import product_name
from dbops.engine.load_tests.comparison import COMPARED, Ratio, Verdict, compare_reports
from dbops.engine.load_tests.knee import Knee, KneeKind
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.planning import Axis
from dbops.engine.load_tests.report import report_rows
from dbops.engine.load_tests.rounds import Round
from dbops.engine.phrases import phrase
from dbops.queries.load_test_pages import KNEE_OF, Conclusion
from dbops.web.charts.load_tests import count_text, ms_text
from dbops.web.figures import UNKNOWN, localized
from dbops.web.templatetags.phrases import translated

Report = Mapping[str, Any]

#: Waits shown for each step.
WAITS_SHOWN = 5
#: Names of the arms.
ARMS = {"a": "A", "b": "B", "a1": phrase("A/A, first"), "a2": phrase("A/A, second")}
#: Percentiles of the tables, with their titles.
DURATIONS = {
    "P50": "P50",
    "P75": "P75",
    "P95": "P95",
    "P99": "P99",
    "P999": "P99.9",
    "Avg": phrase("Average"),
    "Max": phrase("Max"),
}
_UNITS = {
    Axis.SCHEMAS: (phrase("{count} schema"), phrase("{count} schemas")),
    Axis.RATE: (phrase("{count} a second"), phrase("{count} a second")),
    Axis.THREADS: (phrase("{count} thread"), phrase("{count} threads")),
}
#: What copies of a schema lack: of one and of several.
_LOSSES = {
    "ForeignKeys": (phrase("{count} foreign key"), phrase("{count} foreign keys")),
    "Triggers": (phrase("{count} trigger"), phrase("{count} triggers")),
    "ViewsAndSequences": (phrase("{count} view or sequence"), phrase("{count} views and sequences")),
    "TablesElsewhere": (phrase("{count} table with rows elsewhere"), phrase("{count} tables with rows elsewhere")),
}
_KNEES = {
    KneeKind.WALL: phrase(
        "{percentile} leaves its budget between {after} and {at}: a wall, "
        "{ratio} times the first step’s ({low} to {high})."
    ),
    KneeKind.SLOPE: phrase(
        "{percentile} leaves its budget between {after} and {at}: a slope, "
        "{ratio} times the first step’s ({low} to {high})."
    ),
    KneeKind.EVEN_RISE: phrase(
        "{percentile} leaves its budget between {after} and {at}: an even rise, "
        "{ratio} times the first step’s ({low} to {high})."
    ),
}
_VERDICTS = {
    Verdict.FASTER: phrase("B is faster."),
    Verdict.SLOWER: phrase("B is slower."),
    Verdict.NO_DIFFERENCE: phrase("No difference shown."),
    Verdict.NOT_ENOUGH: phrase("Not enough valid pairs of A/B and A/A for a verdict."),
    Verdict.NOISY: phrase("The machine is too noisy: two rounds with the same options differ."),
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
class PlannedStepRow:
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
    return [*steps, _row("total", _("Total"), found.report["Total"])]


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
        arm = _arm(line["Arm"])
        return _("%(arm)s, pair %(number)s") % {"arm": arm, "number": line["Pair"]} if line.get("Pair") else arm
    value = {Axis.SCHEMAS: "TargetSchemaCount", Axis.RATE: "WantedRate", Axis.THREADS: "ParallelCount"}[axis]
    return _with_unit(line[value], axis)


def round_title(one: Round, axis: Axis | None) -> str:
    """Return the conditions of a planned round."""
    if axis is None:
        return _("%(arm)s, pair %(number)s") % {"arm": _arm(one.arm), "number": one.pair}
    value = {Axis.SCHEMAS: one.schemas, Axis.RATE: one.rate, Axis.THREADS: one.threads}[axis]
    return _with_unit(value, axis)


def _with_unit(value: float | None, axis: Axis) -> str:
    return _counted(_UNITS[axis], value)


def _counted(patterns: tuple[str, str], value: float | None) -> str:
    """Return a number with its unit, from the patterns of one and of several."""
    return translated(patterns[value != 1]).format(count=count_text(value))


def _arm(name: str) -> str:
    return translated(ARMS.get(name, name))


def planned_steps(plan: LoadTestPlan) -> list[PlannedStepRow]:
    """Return the steps of a plan, in their order."""
    groups: dict[tuple[int, str], list[Round]] = {}
    for one in plan.rounds:
        groups.setdefault((one.step, one.arm), []).append(one)
    return [_planned(rounds) for _, rounds in sorted(groups.items())]


def _planned(rounds: Sequence[Round]) -> PlannedStepRow:
    first = rounds[0]
    options = " ".join(f"{name}={value}" for name, value in first.options)
    conditions = _conditions(first.schemas, first.threads, first.rate)
    return PlannedStepRow(
        first.step,
        _arm(ARMS.get(first.arm, "")),
        conditions,
        options,
        len(rounds),
        first.seconds,
        first.warm_up_seconds,
    )


def _conditions(schemas: float | None, threads: float | None, rate: float | None) -> str:
    both = ((Axis.SCHEMAS, schemas), (Axis.THREADS, threads), (Axis.RATE, rate))
    return ", ".join(_with_unit(value, axis) for axis, value in both if value)


def losses_text(losses: Mapping[str, int]) -> str:
    """Return what the copies of a schema lack: ``3 foreign keys, 1 trigger``; empty for nothing."""
    return ", ".join(_counted(_LOSSES[name], count) for name, count in losses.items())


def knee_text(knee: Knee | None, axis: Axis | None) -> str:
    """Return the knee in a sentence; empty for a test that looks for none."""
    if knee is None or axis is None:
        return ""
    if knee.kind is KneeKind.UNKNOWN:
        return _("Knee unknown: %(reason)s.") % {"reason": translated(knee.reason)}
    if knee.kind is KneeKind.NONE:
        return _("No knee shown: %(percentile)s does not leave its budget of twice the first step.") % {
            "percentile": KNEE_OF
        }
    values = {"percentile": KNEE_OF, "after": count_text(knee.after), "at": _many(_UNITS[axis], knee.at)}
    values |= {"ratio": _number(knee.ratio), "low": _number(knee.low), "high": _number(knee.high)}
    return translated(_KNEES[knee.kind]).format(**values)


def _many(patterns: tuple[str, str], value: float | None) -> str:
    return translated(patterns[1]).format(count=count_text(value))


def verdict_text(verdict: Verdict) -> str:
    return translated(_VERDICTS[verdict])


def ratio_text(found: Ratio) -> str:
    """Return ``1.20 (1.03 to 1.41), 4 pairs``."""
    if found.ratio is None:
        return translated(UNKNOWN)
    said = ngettext("%(ratio)s, %(number)s pair", "%(ratio)s, %(number)s pairs", found.pairs)
    return said % {"ratio": _with_interval(found.ratio, found.low, found.high), "number": found.pairs}


def _with_interval(ratio: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return localized(f"{ratio:.2f}")
    values = {"ratio": ratio, "low": low, "high": high}
    return _("%(ratio)s (%(low)s to %(high)s)") % {name: localized(f"{value:.2f}") for name, value in values.items()}


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
    tidb, none = plan.tidb, _("none")
    digests = {"count": len(plan.digests.used), "reading": plan.digests.sha256[:12]}
    return [
        (_("Host"), plan.host),
        (_("TiDB node"), f"{tidb.user}@{tidb.address}:{tidb.port}" if tidb else none),
        (_("TiDB cluster"), f"{tidb.cluster}: {', '.join(tidb.nodes)}" if tidb else none),
        (_("Table"), tidb.table if tidb else none),
        (_("Load generator’s host"), plan.generator_host),
        (_("Server"), f"{product_name(plan.flavor)} {plan.version}"),
        (
            _("Backup"),
            _("run %(number)s: %(path)s") % {"number": plan.run, "path": plan.path}
            if plan.run
            else _("none: an empty server"),
        ),
        (_("Directory"), plan.place),
        (_("Server options"), " ".join((*plan.server, *plan.initialise))),
        (_("Server memory"), _("%(number)s bytes") % {"number": plan.server_memory_bytes}),
        (_("Load generator memory"), _("%(number)s bytes") % {"number": plan.generator_memory_bytes}),
        (
            _("Cores"),
            _("%(server)s and %(generator)s") % {"server": plan.server_cores, "generator": plan.generator_cores},
        ),
        (_("Disk"), _("%(number)s bytes") % {"number": plan.needed_bytes}),
        (_("Longest time"), f"{plan.most_seconds} s"),
        (_("Rounds"), str(len(plan.rounds))),
        (_("Top statements"), _("%(count)s used, reading %(reading)s") % digests if plan.digests.sha256 else none),
        (_("Findings"), ", ".join(sorted({one.code for one in plan.findings})) or none),
    ]


def _row(level: str, title: str, line: Report) -> FigureRow:
    return FigureRow(
        level, title, tuple(_cells(line)), bool(line["IsValid"]), tuple(map(translated, line["Reasons"])), _waits(line)
    )


def _cells(line: Report) -> list[tuple[str, str]]:
    cells = [
        (_("Statements"), count_text(line["QueryCount"])),
        (_("Errors"), count_text(line["ErrorQueryCount"])),
        (_("Per second"), count_text(line["TotalQPS"])),
    ]
    if line["WantedRate"]:
        rates = {"achieved": count_text(line["AchievedRate"]), "wanted": count_text(line["WantedRate"])}
        cells.append((_("Achieved rate"), _("%(achieved)s of %(wanted)s") % rates))
    uncertain = line["Duration"].get("Uncertain", ())
    cells += [
        (translated(title), f"{ms_text(line['Duration'][name])}{' ?' if name in uncertain else ''}")
        for name, title in DURATIONS.items()
    ]
    return [
        *cells,
        (_("Server cores"), _cores(line["ServerCores"])),
        (_("Generator cores"), _cores(line["GeneratorCores"])),
        (_("Stalled"), f"{line['StalledSeconds']} s"),
    ]


def _cores(value: float | None) -> str:
    return "—" if value is None else localized(f"{value:.2f}")


def _waits(line: Report) -> tuple[tuple[str, str, str, str], ...]:
    """Return event, share of the threads' time, count and mean of the largest waits."""
    return tuple(
        (
            wait["Event"],
            localized(f"{100 * wait['Share']:.1f} %"),
            count_text(wait["Count"]),
            localized(f"{1e6 * wait['Seconds'] / wait['Count']:,.1f} µs") if wait["Count"] else "—",
        )
        for wait in line.get("Waits", ())[:WAITS_SHOWN]
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _compared(line: Report) -> ComparedRow:
    both = ((Axis.SCHEMAS, "TargetSchemaCount"), (Axis.THREADS, "ParallelCount"), (Axis.RATE, "WantedRate"))
    parts = [_many(_UNITS[axis], line[name]) if line[name] else "" for axis, name in both]
    parts.append(_arm(line["Arm"] or ""))
    cells = [
        (
            _("Per second") if name == "TotalQPS" else translated(DURATIONS[name]),
            _figure(line["First"], name),
            _figure(line["Second"], name),
            _plain_ratio(line["Ratios"][name]),
        )
        for name in COMPARED
    ]
    invalid = [
        (name.lower(), " ".join(map(translated, step["Reasons"])))
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
    return _with_interval(found["Ratio"], found["Low"], found["High"])


def _number(value: float | None) -> str:
    return _("unknown") if value is None else localized(f"{value:.1f}")
