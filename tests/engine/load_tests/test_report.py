"""The report: keys, figures, validity and rows."""

import json
from typing import Any

import pytest

from dbops.engine.load_tests.report import COLUMNS, ReportLimits, make_report, report_rows, stalled_seconds
from dbops.engine.load_tests.round_result import Second, WaitShare
from dbops.engine.load_tests.rounds import Round
from tests.engine.load_tests.results import latencies, result

NONE = ReportLimits()
KEYS = {
    *("StartedAt", "FinishedAt", "ElapsedTime", "ParallelCount", "TargetSchemaCount", "QueryCount", "ErrorQueryCount"),
    *("AvgQPS", "TotalQPS", "Duration"),
}


def one(number: int = 1, step: int = 1, **fields: Any) -> Round:
    return Round(**({"number": number, "step": step, "threads": 4, "seconds": 10} | fields))


def total(round_: Round, limits: ReportLimits = NONE, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = make_report([(round_, result(**fields))], limits)["Total"]
    return found


def test_figures_are_per_step_and_in_total() -> None:
    measured = [
        (one(1, 1, schemas=10), result(1, values=[1.0] * 1000)),
        (one(2, 2, schemas=20), result(2, values=[4.0] * 500, errors=2)),
        (one(3, 1, schemas=10), result(3, values=[1.0] * 3000)),
    ]
    report = make_report(measured, NONE)
    first, second = report["Steps"]
    assert (first["QueryCount"], first["ElapsedTime"], first["TotalQPS"], first["AvgQPS"]) == (4000, 20, 200, 50)
    assert (first["TargetSchemaCount"], second["TargetSchemaCount"], report["Total"]["TargetSchemaCount"]) == (
        10,
        20,
        None,
    )
    assert (second["ErrorQueryCount"], report["Total"]["ErrorQueryCount"], report["Total"]["QueryCount"]) == (
        2,
        2,
        4500,
    )
    assert first["Repeats"]["TotalQPS"] == [100, 300]
    assert second["Duration"]["P50"] == pytest.approx(4.0, rel=0.02)
    assert [line["Round"] for line in report["Rounds"]] == [1, 2, 3]
    for line in (report["Total"], *report["Steps"], *report["Rounds"]):
        assert set(line) >= KEYS
        assert set(line["Duration"]) >= {"P50", "P75", "P95", "P99", "P999", "Avg", "Max", "Min", "TotalSamples"}
    assert json.loads(json.dumps(report)) == report


def test_durations_are_those_of_all_statements() -> None:
    values = latencies(5000, 3)
    duration = total(one(), values=values)["Duration"]
    assert duration["TotalSamples"] == 5000
    assert (duration["Min"], duration["Max"]) == (
        pytest.approx(min(values), abs=1e-6),
        pytest.approx(max(values), abs=1e-5),
    )
    assert duration["Avg"] == pytest.approx(sum(values) / 5000, abs=1e-5)
    assert duration["Uncertain"] == ["P999"]


def test_wanted_and_achieved_rates_are_side_by_side() -> None:
    reached, missed, free = (total(one(rate=rate), values=[1.0] * 1000, events=1000) for rate in (100, 200, 0))
    assert [(line["WantedRate"], line["AchievedRate"], line["IsRateReached"]) for line in (reached, missed, free)] == [
        (100, 100, True),
        (200, 100, False),
        (None, 100, None),
    ]


@pytest.mark.parametrize(
    ("round_", "limits", "fields", "reasons"),
    [
        (one(), NONE, {}, 0),
        (one(), ReportLimits(1.0), {"generator_cores": 0.9}, 0),
        (one(), ReportLimits(1.0), {"generator_cores": 0.91}, 1),
        (one(), ReportLimits(2.0), {"generator_cores": 1.7}, 0),
        (one(), NONE, {"generator_cores": 7.0}, 0),
        (one(), NONE, {"tunnel_cores": 0.9}, 0),
        (one(), NONE, {"tunnel_cores": 0.91}, 1),
        (one(), NONE, {"errors": 10}, 0),
        (one(), NONE, {"errors": 11}, 1),
        (one(schemas=60), NONE, {"schemas_visited": 60}, 0),
        (one(schemas=60), NONE, {"schemas_visited": 59}, 1),
        (one(), NONE, {"values": []}, 1),
    ],
)
def test_a_round_is_valid_or_says_why_not(
    round_: Round, limits: ReportLimits, fields: dict[str, Any], reasons: int
) -> None:
    line = total(round_, limits, **fields)
    assert (line["IsValid"], len(line["Reasons"])) == (not reasons, reasons)


def test_stalls_are_seconds_without_a_statement() -> None:
    seconds = tuple(Second(number, queries, 0) for number, queries in enumerate((5, 0, 0, 3, 0), 1))
    assert stalled_seconds(seconds) == 3
    assert total(one(), seconds=seconds)["StalledSeconds"] == 3


def test_waits_are_shares_of_the_time_of_all_threads() -> None:
    waits = [(WaitShare("a", 1, 2.0, 0.05), WaitShare("b", 2, 1.0, 0.025)), (WaitShare("b", 3, 7.0, 0.175),)]
    measured = [(one(number), result(number, waits=found)) for number, found in enumerate(waits, 1)]
    [step] = make_report(measured, NONE)["Steps"]
    assert [(wait["Event"], wait["Count"], wait["Share"]) for wait in step["Waits"]] == [("b", 5, 0.1), ("a", 1, 0.025)]


def test_rows_have_a_header_and_all_lines() -> None:
    report = make_report([(one(1), result(1)), (one(2, 2), result(2))], NONE)
    header, *rows = report_rows(report)
    assert tuple(header) == COLUMNS
    assert [row[0] for row in rows] == ["step", "step", "round", "round", "total"]
    assert all(len(row) == len(header) for row in rows)
    assert all(isinstance(value, str | int | float | bool | None) for row in rows for value in row)
