"""The report of a load test: figures for each round, each step and in total, as plain data and as rows of a table.

Keys are those of the load tests that people know: times in UTC (ISO 8601), ``ElapsedTime`` in measured seconds, ``Duration`` in
milliseconds. ``TotalQPS`` counts the statements a second of all threads, ``AvgQPS`` those of one thread.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dbops.engine.load_tests.percentiles import merge, percentiles, uncertain
from dbops.engine.load_tests.round_result import SATURATED_SHARE, RoundResult, Second
from dbops.engine.load_tests.rounds import Round
from dbops.engine.phrases import phrase

#: A result with a larger share of failed statements is one of errors.
MOST_ERRORS_SHARE = 0.01
#: A wanted rate counts as reached from here: arrivals are random.
REACHED_SHARE = 0.95
#: Waits shown for each step.
SHOWN_WAITS = 15

Measured = tuple[Round, RoundResult]
Plain = dict[str, Any]
Value = TypeVar("Value")

#: Columns of the table, in order; dotted for what is inside.
COLUMNS = (
    *(
        "Level",
        "Step",
        "Round",
        "Arm",
        "Pair",
        "StartedAt",
        "FinishedAt",
        "ElapsedTime",
        "ParallelCount",
        "TargetSchemaCount",
    ),
    *("QueryCount", "ErrorQueryCount", "AvgQPS", "TotalQPS", "WantedRate", "AchievedRate"),
    *(f"Duration.{name}" for name in ("P50", "P75", "P95", "P99", "P999", "Avg", "Max", "Min", "TotalSamples")),
    *("GeneratorCores", "TunnelCores", "ServerCores", "StalledSeconds", "SchemasVisited", "IsValid", "Reasons"),
)


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """``generator_cores``: those that the generator may use; ``None`` if it is not limited."""

    generator_cores: float | None = None


def make_report(measured: Sequence[Measured], limits: ReportLimits) -> Plain:
    """Return the report: ``Total``, ``Steps`` (rounds of the same conditions together) and ``Rounds``.

    Args:
        measured: the finished rounds, at least one.
        limits: what makes a round invalid.
    """
    groups: dict[tuple[int, str], list[Measured]] = {}
    for one, result in measured:
        groups.setdefault((one.step, one.arm), []).append((one, result))
    rounds = [_round(one, result, limits) for one, result in measured]
    return {
        "Total": _figures("total", measured, limits),
        "Steps": [_step(group, limits) for _, group in sorted(groups.items())],
        "Rounds": rounds,
    }


def report_rows(report: Mapping[str, Any]) -> list[list[object]]:
    """Return the report as a table: the header, then each step, each round and the total. Values are as measured: quote them for CSV."""
    lines = [*report["Steps"], *report["Rounds"], report["Total"]]
    return [list(COLUMNS), *([_cell(line, column) for column in COLUMNS] for line in lines)]


def stalled_seconds(seconds: Iterable[Second]) -> int:
    """Return in how many seconds no statement ended. A stalled thread leaves few samples, so percentiles do not show a stall."""
    return sum(second.queries == 0 for second in seconds)


def reasons_against(one: Round, result: RoundResult, limits: ReportLimits) -> tuple[str, ...]:
    """Return why the round does not measure the server under the stated conditions; empty if it does."""
    reasons = []
    allowed, used = limits.generator_cores, result.generator_cores
    if allowed and used is not None and used > SATURATED_SHARE * allowed:
        reasons.append(
            phrase(
                "The load generator was saturated: it used {used} of {allowed} cores.",
                used=f"{used:.2f}",
                allowed=f"{allowed:g}",
            )
        )
    if result.tunnel_cores is not None and result.tunnel_cores > SATURATED_SHARE:
        reasons.append(
            phrase(
                "The connection to the load generator’s host was saturated: a process of it used {tunnel_cores} cores.",
                tunnel_cores=f"{result.tunnel_cores:.2f}",
            )
        )
    sent = result.queries + result.errors
    if sent == 0:
        reasons.append(phrase("No statement was sent."))
    elif result.errors > MOST_ERRORS_SHARE * sent:
        reasons.append(
            phrase(
                "{errors} of the statements failed. The last error: {last_error}",
                errors=f"{100 * result.errors / sent:.1f} %",
                last_error=result.last_error or phrase("unknown"),
            )
        )
    if result.schemas_visited < one.schemas:
        reasons.append(
            phrase(
                "Only {schemas_visited} of {schemas} schemas were used: measure longer, or stay shorter on each.",
                schemas_visited=result.schemas_visited,
                schemas=one.schemas,
            )
        )
    return tuple(reasons)


def valid_only(measured: Iterable[Measured], limits: ReportLimits) -> list[Measured]:
    """Return the rounds that measure the server under the stated conditions. Only they decide something."""
    return [(one, result) for one, result in measured if not reasons_against(one, result, limits)]


def valid_repeats(step: Mapping[str, Any], name: str) -> list[float]:
    """Return a figure of a step in each of its valid repeats."""
    repeats = step["Repeats"]
    both = zip(repeats[name], repeats["IsValid"], strict=True)
    return [value for value, is_valid in both if is_valid and value is not None]


def _step(group: Sequence[Measured], limits: ReportLimits) -> Plain:
    """Return the figures of one step, with those of its repeats by name, and which of these are valid."""
    figures = _figures("step", group, limits)
    repeats = [_figures("round", [one], limits) for one in group]
    return figures | {
        "Repeats": {
            "TotalQPS": [repeat["TotalQPS"] for repeat in repeats],
            **{name: [repeat["Duration"][name] for repeat in repeats] for name in ("P50", "P95", "P99", "P999")},
            "IsValid": [repeat["IsValid"] for repeat in repeats],
        },
        "Waits": _waits(group),
        "Counters": _counters(group),
    }


def _round(one: Round, result: RoundResult, limits: ReportLimits) -> Plain:
    return _figures("round", [(one, result)], limits) | {
        "Options": dict(one.options),
        "Seconds": [[second.second, second.queries, second.errors, second.p95_ms] for second in result.seconds],
        "Errors": {str(number): count for number, count in sorted(result.errors_by_number.items())},
        "LastError": result.last_error,
        "Counters": dict(result.counters),
    }


def _figures(level: str, group: Sequence[Measured], limits: ReportLimits) -> Plain:
    rounds, results = [one for one, _ in group], [result for _, result in group]
    elapsed = sum(_elapsed(result) for result in results)
    queries, threads = sum(result.queries for result in results), _same([one.threads for one in rounds])
    reasons = [reason for one, result in group for reason in reasons_against(one, result, limits)]
    thread_seconds = sum(one.threads * _elapsed(result) for one, result in group)
    return {
        "Level": level,
        "Step": _same([one.step for one in rounds]) if level != "total" else None,
        "Round": rounds[0].number if level == "round" else None,
        "Arm": _same([one.arm for one in rounds]) or "",
        "Pair": rounds[0].pair if level == "round" else None,
        "StartedAt": min(result.started_at for result in results).isoformat(),
        "FinishedAt": max(result.finished_at for result in results).isoformat(),
        "ElapsedTime": round(elapsed, 3),
        "ParallelCount": threads,
        "TargetSchemaCount": _same([one.schemas for one in rounds]),
        "QueryCount": queries,
        "ErrorQueryCount": sum(result.errors for result in results),
        "AvgQPS": _rate(queries, thread_seconds),
        "TotalQPS": _rate(queries, elapsed),
        **_rates(group, elapsed),
        "Duration": _duration(results),
        "GeneratorCores": _mean([(result.generator_cores, _elapsed(result)) for result in results]),
        "TunnelCores": max((one.tunnel_cores for one in results if one.tunnel_cores is not None), default=None),
        "ServerCores": _mean([(result.server_cores, _elapsed(result)) for result in results]),
        "StalledSeconds": sum(stalled_seconds(result.seconds) for result in results),
        "SchemasVisited": _same([result.schemas_visited for result in results]),
        "IsValid": not reasons,
        "Reasons": list(dict.fromkeys(reasons)),
    }


def _rates(group: Sequence[Measured], elapsed: float) -> Plain:
    """Return wanted and achieved events a second. Without a wanted rate the load is as fast as it can be, and nothing is missed."""
    wanted = _same([one.rate for one, _ in group])
    achieved = _rate(sum(result.events for _, result in group), elapsed)
    return {
        "WantedRate": wanted or None,
        "AchievedRate": achieved,
        "IsRateReached": achieved >= REACHED_SHARE * wanted if wanted else None,
        "UnservedEvents": sum(result.unserved for _, result in group),
    }


def _duration(results: Sequence[RoundResult]) -> Plain:
    buckets = merge(result.buckets for result in results)
    least = min((result.min_ms for result in results if result.min_ms is not None), default=None)
    most = max((result.max_ms for result in results if result.max_ms is not None), default=None)
    known = [(result.average_ms, float(result.queries)) for result in results]
    return {
        **{name: _rounded(value) for name, value in percentiles(buckets, least=least, most=most).items()},
        "Avg": _rounded(_mean(known)),
        "Max": _rounded(most),
        "Min": _rounded(least),
        "TotalSamples": sum(count for _, count in buckets),
        "Uncertain": list(uncertain(buckets)),
    }


def _waits(group: Sequence[Measured]) -> list[Plain]:
    """Return the largest waits of a step, with their share of all threads' time."""
    thread_seconds = sum(one.threads * _elapsed(result) for one, result in group)
    sums: dict[str, tuple[int, float]] = {}
    for _, result in group:
        for wait in result.waits:
            count, seconds = sums.get(wait.event, (0, 0.0))
            sums[wait.event] = (count + wait.count, seconds + wait.seconds)
    largest = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))[:SHOWN_WAITS]
    return [
        {"Event": event, "Count": count, "Seconds": round(seconds, 6), "Share": round(seconds / thread_seconds, 6)}
        for event, (count, seconds) in largest
    ]


def _counters(group: Sequence[Measured]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for _, result in group:
        for name, value in result.counters.items():
            sums[name] = sums.get(name, 0) + value
    return sums


def _elapsed(result: RoundResult) -> float:
    return (result.finished_at - result.started_at).total_seconds()


def _rate(count: float, seconds: float) -> float:
    return round(count / seconds, 2) if seconds > 0 else 0.0


def _mean(weighted: Iterable[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None and weight > 0]
    weight = sum(weight for _, weight in known)
    return round(sum(value * weight for value, weight in known) / weight, 6) if known else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _same(values: Sequence[Value]) -> Value | None:
    """Return the value that all have, ``None`` if they differ."""
    return values[0] if all(value == values[0] for value in values) else None


def _cell(line: Mapping[str, Any], column: str) -> object:
    value: Any = line
    for part in column.split("."):
        value = value[part]
    return " ".join(value) if isinstance(value, list) else value
