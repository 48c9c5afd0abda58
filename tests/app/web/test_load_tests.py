"""Pages of load tests: list, live page, report, files, comparison, stop."""

import csv
import io
import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dbops.engine.load_tests.comparison import Verdict
from dbops.engine.load_tests.knee import KneeKind
from dbops.engine.load_tests.planning import Axis
from dbops.engine.load_tests.report import COLUMNS
from dbops.engine.load_tests.request import Raised
from dbops.engine.states import RunStatus
from dbops.models import AuditEntry, Instance, LoadTest, LoadTestEvent
from dbops.queries.load_tests import plan_of
from dbops.web.charts.load_tests import count_text, ms_text
from dbops.web.charts.xy import ChartScale, XyLine, xy_chart
from tests.app.load_test_rows import make_load_test, make_place, make_request, make_source

from .load_test_results import WAIT, change_rounds, finish_rounds
from .marks import marks, part

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
AB = {
    "raised": Raised.NOTHING,
    "options_a": (("innodb_doublewrite", "ON"),),
    "options_b": (("innodb_doublewrite", "OFF"),),
    "most_pairs": 4,
    "aa_pairs": 4,
}


@pytest.fixture
def source() -> Instance:
    return make_source()


@pytest.fixture
def load_test(source: Instance, operator: Client, olga: Any) -> LoadTest:
    return make_load_test(make_request(source, make_place(), steps=(1, 2, 4), repeats=3), actor=olga)


@pytest.fixture
def ab_test(source: Instance, operator: Client, olga: Any) -> LoadTest:
    return make_load_test(make_request(source, make_place(), **AB), actor=olga)


def address(load_test: LoadTest, end: str = "/") -> str:
    return f"/load-tests/{load_test.pk}{end}"


def test_list_filters_by_cluster_and_status(viewer: Client, load_test: LoadTest) -> None:
    assert marks(viewer.get("/load-tests/").content.decode(), "load-test") == [str(load_test.pk)]
    for query, expected in (
        ({"cluster": "shop", "status": "queued"}, 1),
        ({"cluster": "tests"}, 0),
        ({"status": "failed"}, 0),
        ({"cluster": "x\0", "page": "99"}, 0),
    ):
        assert len(viewer.get("/load-tests/", query).context["page"]) == expected, query


def test_pages_link_to_load_tests(viewer: Client, load_test: LoadTest) -> None:
    page = viewer.get("/clusters/shop/capacity/").content.decode()
    assert 'href="/load-tests/?cluster=shop"' in page
    assert 'href="/clusters/shop/load-tests/new/"' in page
    assert 'href="/load-tests/"' in viewer.get("/backups/").content.decode()


def test_page_of_a_queued_load_test_polls_and_has_no_figures(viewer: Client, load_test: LoadTest) -> None:
    answer = viewer.get(address(load_test))
    page = answer.content.decode()
    assert answer.status_code == 200
    assert f'hx-get="{address(load_test)}?revision=' in page
    assert (answer.context["step_rows"], answer.context["knee"], answer.context["table"]) == ([], "", None)
    assert {chart.drawing for chart in answer.context["charts"]} == {""}
    assert len(answer.context["waiting_rounds"]) == 9
    assert 'id="cancel-link"' not in page, "a viewer"
    assert " style=" not in page


def test_poll_gets_the_changing_part_or_204(viewer: Client, load_test: LoadTest) -> None:
    poll = {"HTTP_HX_REQUEST": "true"}
    LoadTest.objects.update(revision=7)
    assert viewer.get(address(load_test), {"revision": "7"}, **poll).status_code == 204  # type: ignore[arg-type]
    answer = viewer.get(address(load_test), {"revision": "6"}, **poll)  # type: ignore[arg-type]
    assert answer.status_code == 200
    assert "<html" not in answer.content.decode()
    assert "HX-Request" in answer["Vary"]


def test_running_load_test_shows_the_rounds_so_far(viewer: Client, load_test: LoadTest) -> None:
    finish_rounds(load_test, 4)
    answer = viewer.get(address(load_test))
    page = answer.content.decode()
    assert marks(page, "rounds") == ["4"]
    assert [row.level for row in answer.context["step_rows"]] == ["step", "step", "step", "total"]
    assert answer.context["page"].conclusion.knee.kind is KneeKind.UNKNOWN
    assert marks(page, "chart") == ["latency", "speed", "latency-by-speed", "seconds", "cpu"]
    assert all(chart.drawing for chart in answer.context["charts"])
    assert answer.context["round_rows"][0].cells[-1][1] == "1 s", "stalled"
    assert marks(page, "step") == [row.title for row in answer.context["step_rows"] if row.level == "step"]
    assert answer.context["step_rows"][0].waits[0][:2] == (WAIT, "6.7 %") or WAIT in page


def test_load_test_shows_its_steps(viewer: Client, load_test: LoadTest) -> None:
    step = {"name": "prepare", "state": "done", "seconds": 2.0, "bytes": 3 << 19}
    LoadTest.objects.update(steps=[step, {"name": "fill", "state": "running", "seconds": None, "bytes": None}])
    steps = part(viewer.get(address(load_test)).content.decode(), 'id="steps-title"', "</table>")
    assert marks(steps, "step") == ["prepare", "fill"]
    assert "1.50 MiB" in steps


def test_finished_load_test_shows_its_stored_report_and_polls_no_more(viewer: Client, load_test: LoadTest) -> None:
    finish_rounds(load_test)
    report = viewer.get(address(load_test)).context["page"].conclusion.report
    LoadTest.objects.update(status=RunStatus.SUCCEEDED, report={**report, "Stored": True})
    answer = viewer.get(address(load_test))
    assert answer.context["page"].conclusion.report["Stored"]
    assert answer.context["page"].conclusion.axis is Axis.THREADS
    assert "hx-get" not in answer.content.decode().partition('id="load-test"')[2].partition("</div>")[0]
    assert answer.context["page"].conclusion.knee.kind is KneeKind.NONE


def test_parts_that_copies_lack_are_in_report_and_json(viewer: Client, load_test: LoadTest) -> None:
    finish_rounds(load_test)
    report = viewer.get(address(load_test)).context["page"].conclusion.report
    lost = {"ForeignKeys": 1200, "Triggers": 1, "ViewsAndSequences": 2, "TablesElsewhere": 3}
    for losses, shown in (({}, 0), (lost, 1)):
        LoadTest.objects.update(status=RunStatus.SUCCEEDED, report={**report, "NotCopied": losses})
        answer = viewer.get(address(load_test))
        assert answer.content.decode().count("data-not-copied") == shown
        assert answer.context["not_copied"].count(",") == (len(losses) and 4), "one of them is in 1,200"
        assert viewer.get(address(load_test, ".json")).json()["NotCopied"] == losses


def test_ab_test_shows_verdict_interval_and_a_a(viewer: Client, ab_test: LoadTest) -> None:
    finish_rounds(ab_test)
    answer = viewer.get(address(ab_test))
    found = answer.context["page"].conclusion
    assert (found.ab.verdict, found.axis, found.knee) == (Verdict.FASTER, None, None)
    assert round(found.ab.ab.ratio, 2) == 1.5
    assert (len(found.pairs), len(found.aa_pairs)) == (4, 4)
    assert answer.context["aa_ratio"].startswith("1.00")
    assert marks(answer.content.decode(), "verdict") == ["faster"]
    assert marks(answer.content.decode(), "chart") == ["pairs", "seconds", "cpu"]


def test_results_of_a_saturated_generator_are_not_valid(viewer: Client, load_test: LoadTest) -> None:
    finish_rounds(load_test)
    change_rounds(load_test, generator_cores=99.0)
    answer = viewer.get(address(load_test))
    assert marks(answer.content.decode(), "invalid") == ["3"]
    assert {row.is_valid for row in answer.context["step_rows"]} == {False}
    assert all(row.reasons for row in answer.context["step_rows"])


def test_page_shows_no_markup_of_others(viewer: Client, load_test: LoadTest) -> None:
    hostile = "<script>alert(1)</script>"
    LoadTestEvent.objects.create(load_test=load_test, at=load_test.requested_at, level="info", text=hostile)
    finish_rounds(load_test, 1, error={"code": "load_test.failed", "operation": hostile, "cause": hostile})
    wait = {"event": hostile, "count": 400, "seconds": 2.0, "share": 0.2}
    change_rounds(load_test, errors=9000, last_error=hostile, waits=[wait])
    page = viewer.get(address(load_test)).content.decode()
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert") >= 4


def test_files_have_every_figure_and_are_recorded(viewer: Client, load_test: LoadTest) -> None:
    finish_rounds(load_test)
    answer = viewer.get(address(load_test, ".json"))
    assert 'filename="load-test-' in answer["Content-Disposition"]
    report = json.loads(answer.content)
    assert (report["LoadTest"], len(report["Steps"]), len(report["Rounds"])) == (load_test.pk, 3, 9)
    assert {"P50", "P75", "P95", "P99", "P999", "Avg", "Max", "Min", "TotalSamples"} <= set(report["Total"]["Duration"])
    answer = viewer.get(address(load_test, ".csv"))
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert list(rows[0]) == list(COLUMNS)
    assert [row["Level"] for row in rows] == ["step"] * 3 + ["round"] * 9 + ["total"]
    assert AuditEntry.objects.filter(subject="load test").count() == 2


def test_csv_neutralises_formulas(viewer: Client, load_test: LoadTest) -> None:
    finish_rounds(load_test, 1)
    change_rounds(load_test, errors=9000, last_error="x")
    report = viewer.get(address(load_test)).context["page"].conclusion.report
    for line in (*report["Steps"], *report["Rounds"], report["Total"]):
        line["Reasons"] = ["=cmd|' /C calc'!A0"]
    LoadTest.objects.update(report=report)
    rows = list(csv.DictReader(io.StringIO(viewer.get(address(load_test, ".csv")).content.decode("utf-8-sig"))))
    assert {row["Reasons"][0] for row in rows} == {"'"}


def test_files_before_the_first_round_are_empty(viewer: Client, load_test: LoadTest) -> None:
    assert "Steps" not in json.loads(viewer.get(address(load_test, ".json")).content)
    assert len(viewer.get(address(load_test, ".csv")).content.decode().splitlines()) == 1


def test_two_load_tests_are_compared_by_step(viewer: Client, load_test: LoadTest, olga: Any, source: Instance) -> None:
    request = make_request(source, load_test.host, steps=(2, 4, 8), repeats=3)
    other = make_load_test(request, actor=olga, request_key="two")
    for one in (load_test, other):
        finish_rounds(one)
    answer = viewer.get("/load-tests/compare/", {"a": str(load_test.pk), "b": str(other.pk)})
    assert answer.status_code == 200
    titles = marks(answer.content.decode(), "compared")
    assert len(titles) == 4
    ratios = [row.cells[0][3] for row in answer.context["rows"]]
    assert ["—" in ratio for ratio in ratios] == [True, False, False, True]
    assert len(answer.context["charts"]) == 2
    assert marks(answer.content.decode(), "valid") == ["yes"] * 4


def test_compared_step_with_failed_rounds_is_marked(
    viewer: Client, load_test: LoadTest, olga: Any, source: Instance
) -> None:
    other = make_load_test(
        make_request(source, load_test.host, steps=(1, 2, 4), repeats=3), actor=olga, request_key="2"
    )
    for one in (load_test, other):
        finish_rounds(one)
    planned = plan_of(other).rounds
    change_rounds(other, errors=lambda number: 90_000 if planned[number - 1].threads == 2 else 0)
    answer = viewer.get("/load-tests/compare/", {"a": str(load_test.pk), "b": str(other.pk)})
    assert marks(answer.content.decode(), "valid") == ["yes", "no", "yes"]
    assert [name for name, _ in answer.context["rows"][1].invalid] == ["second"]
    assert [row.cells[0][3] == "—" for row in answer.context["rows"]] == [False, True, False]


def test_comparison_needs_numbers_that_exist(viewer: Client, load_test: LoadTest) -> None:
    assert viewer.get("/load-tests/compare/").status_code == 200
    assert viewer.get("/load-tests/compare/", {"a": str(load_test.pk)}).context["rows"] == []
    assert viewer.get("/load-tests/compare/", {"a": str(load_test.pk), "b": str(load_test.pk)}).context["rows"] == []
    for bad in ("999999", "x", "1" * 30, "-1"):
        assert viewer.get("/load-tests/compare/", {"a": bad}).status_code == 404, bad
    assert viewer.get("/load-tests/999999/").status_code == 404
    assert viewer.get("/load-tests/999999.json").status_code == 404


def test_operator_stops_a_load_test_with_a_reason(operator: Client, load_test: LoadTest) -> None:
    page = operator.get(address(load_test)).content.decode()
    assert 'id="cancel-link"' in page
    assert operator.get(address(load_test, "/cancel/")).status_code == 200
    refused = operator.post(address(load_test, "/cancel/"), {"reason": ""})
    assert (refused.status_code, refused.context["refused"].code) == (409, "load_test.reason")
    answer = operator.post(address(load_test, "/cancel/"), {"reason": "wrong host"})
    assert (answer.status_code, answer["Location"]) == (302, address(load_test))
    assert LoadTest.objects.get(pk=load_test.pk).status == RunStatus.CANCELLED
    again = operator.post(address(load_test, "/cancel/"), {"reason": "wrong host"})
    assert (again.status_code, again.context["refused"].code) == (409, "load_test.ended")


def test_who_may_see_and_stop(viewer: Client, stranger: Client, load_test: LoadTest) -> None:
    for path in ("/load-tests/", address(load_test), address(load_test, ".csv"), "/load-tests/compare/"):
        assert stranger.get(path).status_code == 403, path
        assert viewer.post(path).status_code in (403, 405), path
        assert Client().get(path).status_code == 302, path
    assert viewer.get(address(load_test, "/cancel/")).status_code == 403
    assert viewer.post(address(load_test, "/cancel/"), {"reason": "x"}).status_code == 403
    assert LoadTest.objects.get(pk=load_test.pk).status == RunStatus.QUEUED


def test_list_takes_fixed_queries(viewer: Client, load_test: LoadTest, olga: Any, source: Instance) -> None:
    counts = []
    for key in ("two", "three"):
        make_load_test(make_request(source, load_test.host), actor=olga, request_key=key)
        with CaptureQueriesContext(connection) as captured:
            viewer.get("/load-tests/")
        counts.append(len(captured))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "—"), (0.1134, "0.113"), (4.42, "4.42"), (44.91, "44.9"), (1204.3, "1,204")]
)
def test_latencies_have_three_digits(value: float | None, text: str) -> None:
    assert ms_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (1200, "1,200"), (40_000, "40k"), (26_465, "26,465"), (2e7, "20M")]
)
def test_counts_are_short_where_nothing_is_lost(value: float, text: str) -> None:
    assert count_text(value) == text


def test_chart_survives_single_and_equal_values() -> None:
    scale = ChartScale("x", count_text)
    for points in ([(1.0, 1.0)], [(0.0, 0.0)], [(5.0, 0.001), (5.0, 0.001)]):
        assert "nan" not in xy_chart([XyLine("a", 1, points, points)], scale, scale, "said")
    logarithmic = ChartScale("y", ms_text, is_log=True)
    assert xy_chart([XyLine("a", 1, [(1.0, 0.0)])], scale, logarithmic, "said") == ""
    assert "<svg" in xy_chart([XyLine("a", 1, [(1.0, 0.0), (2.0, 3.0)])], scale, logarithmic, "said")
    assert xy_chart([], scale, scale, "said") == ""
