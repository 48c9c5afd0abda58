"""The figures of a rebuild over time: their points, their charts without a script, and the summary at the end."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries

from dbops.engine.rebuilds.comparison import EVIDENCE_OF_STEPS, RebuildComparison
from dbops.engine.states import Status, StepState
from dbops.models import Rebuild, RebuildSample, RebuildStep
from dbops.queries.rebuilds import metrics
from dbops.queries.rebuilds import pages as queries
from dbops.queries.rebuilds.outcome import comparison
from dbops.web.charts.rebuild import charts, path
from tests.app.factories import make_rebuild, make_run, make_trio

from .marks import marks, part

pytestmark = pytest.mark.django_db
MB = 1_000_000


@pytest.fixture
def running(db: None) -> Rebuild:
    _, backup, replica = make_trio()
    return make_rebuild(target=replica, source=backup)


def add(rebuild: Rebuild, count: int, step: str = "stream", first: int = 0, **values: Any) -> None:
    begin = rebuild.started_at or timezone.now()
    RebuildSample.objects.bulk_create(
        RebuildSample(
            rebuild=rebuild,
            number=number,
            at=begin + timedelta(seconds=2 * number),
            step=step,
            bytes=number * 200 * MB if step == "stream" else None,
            disk_written_bytes=number * 100 * MB,
            **values,
        )
        for number in range(first, first + count)
    )


def ask(client: Client, rebuild: Rebuild, after: str = "") -> Any:
    answer = client.get(f"/rebuilds/{rebuild.pk}/samples/", {"after": after} if after else {})
    return json.loads(answer.content) if answer.status_code == 200 else answer.status_code


def test_samples_are_all_points_then_new_ones_then_204(viewer: Client, running: Rebuild) -> None:
    add(running, 4, source_lag_seconds=1.5)
    found = ask(viewer, running)
    assert found["number"] == [0, 1, 2, 3]
    assert (found["rate"], found["written"]) == ([None, 100 * MB, 100 * MB, 100 * MB], [None] + [50 * MB] * 3)
    assert (found["lag"], found["read"]) == ([1.5] * 4, [None] * 4)
    new = ask(viewer, running, after="2")
    assert (new["number"], new["rate"]) == ([3], [100 * MB])
    assert ask(viewer, running, after="3") == 204


def test_samples_ignore_an_unreadable_number(viewer: Client, running: Rebuild) -> None:
    add(running, 2)
    for asked in ("-1", "1 OR 1", "9" * 40, "\N{ARABIC-INDIC DIGIT ONE}"):
        assert ask(viewer, running, after=asked)["number"] == [0, 1]
    assert viewer.get("/rebuilds/4711/samples/").status_code == 404


def test_samples_need_a_viewer(client: Client, running: Rebuild) -> None:
    assert client.get(f"/rebuilds/{running.pk}/samples/").status_code == 302


def test_samples_thin_a_long_history(viewer: Client, running: Rebuild) -> None:
    add(running, 2600)
    assert len(ask(viewer, running)["number"]) <= 1000


def test_samples_take_one_query(running: Rebuild, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    add(running, 20)
    with django_assert_num_queries(1):
        assert len(metrics.history(running.pk)) == 20
    with django_assert_num_queries(1):
        assert [point.number for point in metrics.after(running.pk, 17)] == [18, 19]
    with django_assert_num_queries(1):
        newest = metrics.newest(running.pk)
    assert [point.number for point in newest] == list(range(20 - metrics.NEWEST, 20))
    assert newest[0].rate == 100 * MB


def test_page_takes_as_many_queries_with_a_thousand_points(viewer: Client, running: Rebuild) -> None:
    counts = []
    for count, first in ((2, 0), (1000, 2)):
        add(running, count, first=first)
        with CaptureQueriesContext(connection) as captured:
            assert viewer.get(f"/rebuilds/{running.pk}/").status_code == 200
        counts.append(len(captured))
    assert counts == [10, 10], counts


def test_page_draws_charts_and_names_their_values_without_a_script(viewer: Client, running: Rebuild) -> None:
    add(running, 3, source_lag_seconds=75.0)
    answer = viewer.get(f"/rebuilds/{running.pk}/")
    text = answer.content.decode()
    shown = {chart.key: chart for chart in answer.context["charts"]}
    assert re.findall(r"\d+", shown["rate"].summary) == ["95"] * 3
    assert "MiB/s" in shown["rate"].summary
    assert shown["lag"].summary.count("1 min 15 s") == 3
    for chart in shown.values():
        for line in chart.lines:
            assert line.summary in part(text, f'data-line="{line.key}"', "</li>")
        assert chart.summary in part(text, f'aria-labelledby="chart-{chart.key}"', "</section>")
    assert text.count('class="spark-box"') == 3
    assert "style=" not in text.split('id="charts"')[1].split("</section>")[0]


def test_page_explains_every_chart_without_points(viewer: Client, running: Rebuild) -> None:
    answer = viewer.get(f"/rebuilds/{running.pk}/")
    for chart in answer.context["charts"]:
        shown = part(answer.content.decode(), f'data-chart="{chart.key}"', "</section>")
        assert f'<p class="chart-empty" >{chart.empty}</p>' in shown
    assert [chart.empty != "" for chart in charts([])] == [True, True, True]


def test_path_has_gaps_where_values_are_unknown() -> None:
    drawn = path([0.0, 1.0, 2.0, 3.0], [1.0, None, 0.5, 0.5], 1.0)
    assert drawn.count("M") == 2
    assert path([], [], 0.0) == ""
    assert path([5.0], [0.0], 0.0).startswith("M0.0 ")


def test_fragments_carry_the_newest_points(viewer: Client, running: Rebuild) -> None:
    add(running, 20)
    text = viewer.get(f"/rebuilds/{running.pk}/poll/?revision=0").content.decode()
    assert "&quot;number&quot;:[12,13,14,15,16,17,18,19]" in text


# At the end


def summary_of(client: Client, rebuild: Rebuild) -> tuple[RebuildComparison, str]:
    """Return the summary of a rebuild's page, and its card."""
    answer = client.get(f"/rebuilds/{rebuild.pk}/")
    return answer.context["summary"], part(answer.content.decode(), 'id="summary-title"', "</section>")


def finished(rebuild: Rebuild, rate: float = 50.0 * MB) -> None:
    RebuildStep.objects.filter(rebuild=rebuild, name="stream").update(
        state=StepState.DONE, progress={"bytes": 3000 * MB, "average_bytes_per_second": rate}
    )


def test_summary_compares_with_the_last_rebuilds_and_with_dumps(viewer: Client, running: Rebuild) -> None:
    source, target = running.source, running.target
    other = make_rebuild(target=target, source=source, status=Status.SUCCEEDED)
    failed = make_rebuild(target=target, source=source, status=Status.FAILED)
    finished(other, 61.0 * MB)
    make_run(source, started_at=timezone.now() - timedelta(hours=20), seconds=16 * 3600, method="dump")
    own = make_rebuild(target=target, source=source, status=Status.SUCCEEDED)
    finished(own)
    summary, card = summary_of(viewer, own)
    assert [(one.number, one.target) for one in summary.others] == [(other.pk, "replica-1")]
    assert re.findall(r'href="/rebuilds/(\d+)/"', card) == [str(other.pk)]
    assert str(failed.pk) not in re.findall(r'href="/rebuilds/(\d+)/"', card)
    assert "58 MiB/s" in card
    assert 'class="summary-current"' in card
    assert (summary.dumps.seconds, marks(card, "dumps")) == (16 * 3600, ["1"])
    assert "<strong>16 h 00 min</strong>" in card
    assert summary.evidence == (EVIDENCE_OF_STEPS["stream"],)
    assert escape(EVIDENCE_OF_STEPS["stream"]) in part(card, 'id="summary-evidence"', "</details>")


def test_summary_of_a_failed_rebuild_shows_the_last_ones_without_itself(viewer: Client, running: Rebuild) -> None:
    other = make_rebuild(target=running.target, source=running.source, status=Status.SUCCEEDED)
    failed = make_rebuild(target=running.target, source=running.source, status=Status.FAILED)
    summary, card = summary_of(viewer, failed)
    assert [one.number for one in summary.others] == [other.pk]
    assert re.findall(r'href="/rebuilds/(\d+)/"', card) == [str(other.pk)]
    assert 'class="summary-current"' not in card
    assert marks(card, "figure") == []


def test_summary_shows_no_figures_that_were_not_measured(viewer: Client, running: Rebuild) -> None:
    own = make_rebuild(target=running.target, source=running.source, status=Status.SUCCEEDED)
    summary, card = summary_of(viewer, own)
    assert (summary.others, summary.dumps, summary.expected_seconds) == ((), None, None)
    assert marks(card, "others") == ["0"]
    assert (marks(card, "dumps"), marks(card, "figure")) == ([], [])


def test_running_rebuild_has_no_summary_and_takes_no_query_for_it(
    viewer: Client, running: Rebuild, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    page = queries.page(running)
    with django_assert_num_queries(0):
        assert comparison(page) is None
    assert "summary-title" not in viewer.get(f"/rebuilds/{running.pk}/").content.decode()
    for _ in range(3):
        own = make_rebuild(target=running.target, source=running.source, status=Status.SUCCEEDED)
    found = queries.find(own.pk)
    assert found
    page = queries.page(found)
    with django_assert_num_queries(3):
        comparison(page)
