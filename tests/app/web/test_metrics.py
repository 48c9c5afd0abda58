"""The figures of a rebuild over time: their points, their charts without a script, and the summary at the end."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.states import Status, StepState
from dbops.models import Rebuild, Sample, Step
from dbops.queries.rebuilds import metrics
from dbops.queries.rebuilds import pages as queries
from dbops.queries.rebuilds.outcome import comparison
from dbops.web.charts.rebuild import charts, path
from tests.app.factories import make_rebuild, make_run, make_trio

pytestmark = pytest.mark.django_db
MB = 1_000_000


@pytest.fixture
def running(db: None) -> Rebuild:
    _, backup, replica = make_trio()
    return make_rebuild(target=replica, source=backup)


def add(rebuild: Rebuild, count: int, step: str = "stream", first: int = 0, **values: Any) -> None:
    begin = rebuild.started_at or timezone.now()
    Sample.objects.bulk_create(
        Sample(
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


def test_all_points_then_only_what_is_new_then_nothing(viewer: Client, running: Rebuild) -> None:
    add(running, 4, source_lag_seconds=1.5)
    found = ask(viewer, running)
    assert found["number"] == [0, 1, 2, 3]
    assert (found["rate"], found["written"]) == ([None, 100 * MB, 100 * MB, 100 * MB], [None] + [50 * MB] * 3)
    assert (found["lag"], found["read"]) == ([1.5] * 4, [None] * 4)
    new = ask(viewer, running, after="2")
    assert (new["number"], new["rate"]) == ([3], [100 * MB])
    assert ask(viewer, running, after="3") == 204


def test_nonsense_gets_all_and_no_rebuild_gets_404(viewer: Client, running: Rebuild) -> None:
    add(running, 2)
    for asked in ("-1", "1 OR 1", "9" * 40, "\N{ARABIC-INDIC DIGIT ONE}"):
        assert ask(viewer, running, after=asked)["number"] == [0, 1]
    assert viewer.get("/rebuilds/4711/samples/").status_code == 404


def test_points_are_for_those_who_may_look(client: Client, running: Rebuild) -> None:
    assert client.get(f"/rebuilds/{running.pk}/samples/").status_code == 302


def test_a_long_history_is_thinned(viewer: Client, running: Rebuild) -> None:
    add(running, 2600)
    assert len(ask(viewer, running)["number"]) <= 1000


def test_points_cost_one_query(running: Rebuild, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    add(running, 20)
    with django_assert_num_queries(1):
        assert len(metrics.history(running.pk)) == 20
    with django_assert_num_queries(1):
        assert [point.number for point in metrics.after(running.pk, 17)] == [18, 19]
    with django_assert_num_queries(1):
        newest = metrics.newest(running.pk)
    assert [point.number for point in newest] == list(range(20 - metrics.NEWEST, 20))
    assert newest[0].rate == 100 * MB


def test_the_page_costs_as_many_queries_with_a_thousand_points(viewer: Client, running: Rebuild) -> None:
    counts = []
    for count, first in ((2, 0), (1000, 2)):
        add(running, count, first=first)
        with CaptureQueriesContext(connection) as captured:
            assert viewer.get(f"/rebuilds/{running.pk}/").status_code == 200
        counts.append(len(captured))
    assert counts == [11, 11], counts


def test_without_a_script_the_page_draws_them_and_says_them(viewer: Client, running: Rebuild) -> None:
    add(running, 3, source_lag_seconds=75.0)
    text = viewer.get(f"/rebuilds/{running.pk}/").content.decode()
    assert "copied least 95, median 95, most 95 MiB/s" in text
    assert "lag least 1 min 15 s" in text
    assert text.count('class="spark-box"') == 3
    assert "style=" not in text.split('id="charts"')[1].split("</section>")[0]


def test_what_was_not_measured_is_said(viewer: Client, running: Rebuild) -> None:
    text = viewer.get(f"/rebuilds/{running.pk}/").content.decode()
    assert "No figures: no copy has run." in text
    assert [chart.empty != "" for chart in charts([])] == [True, True, True]


def test_the_pen_is_lifted_where_nothing_is_known() -> None:
    drawn = path([0.0, 1.0, 2.0, 3.0], [1.0, None, 0.5, 0.5], 1.0)
    assert drawn.count("M") == 2
    assert path([], [], 0.0) == ""
    assert path([5.0], [0.0], 0.0).startswith("M0.0 ")


def test_fragments_carry_the_newest_points(viewer: Client, running: Rebuild) -> None:
    add(running, 20)
    text = viewer.get(f"/rebuilds/{running.pk}/poll/?revision=0").content.decode()
    assert "&quot;number&quot;:[12,13,14,15,16,17,18,19]" in text


# At the end


def finished(rebuild: Rebuild, rate: float = 50.0 * MB) -> None:
    Step.objects.filter(rebuild=rebuild, name="stream").update(
        state=StepState.DONE, progress={"bytes": 3000 * MB, "average_bytes_per_second": rate}
    )


def test_a_rebuild_that_has_ended_is_compared_with_the_last_ones_and_with_dumps(
    viewer: Client, running: Rebuild
) -> None:
    source, target = running.source, running.target
    other = make_rebuild(target=target, source=source, status=Status.SUCCEEDED)
    failed = make_rebuild(target=target, source=source, status=Status.FAILED)
    finished(other, 61.0 * MB)
    make_run(source, started_at=timezone.now() - timedelta(hours=20), seconds=16 * 3600, method="dump")
    own = make_rebuild(target=target, source=source, status=Status.SUCCEEDED)
    finished(own)
    card = viewer.get(f"/rebuilds/{own.pk}/").content.decode().split('id="summary-title"')[1].split("</section>")[0]
    assert f"Rebuild {other.pk}</a> of replica-1" in card
    assert "58 MiB/s" in card
    assert f"Rebuild {failed.pk}</a>" not in card
    assert "A dump of this cluster took <strong>16 h 00 min</strong>" in card
    assert "The copy was whole" in card


def test_a_rebuild_that_failed_is_no_time_to_compare(viewer: Client, running: Rebuild) -> None:
    make_rebuild(target=running.target, source=running.source, status=Status.SUCCEEDED)
    failed = make_rebuild(target=running.target, source=running.source, status=Status.FAILED)
    card = viewer.get(f"/rebuilds/{failed.pk}/").content.decode().split('id="summary-title"')[1].split("</section>")[0]
    assert "This one" not in card
    assert "The last rebuilds of this cluster that succeeded" in card
    assert "not known yet" not in card


def test_nothing_is_invented_where_nothing_was_measured(viewer: Client, running: Rebuild) -> None:
    own = make_rebuild(target=running.target, source=running.source, status=Status.SUCCEEDED)
    card = viewer.get(f"/rebuilds/{own.pk}/").content.decode().split('id="summary-title"')[1].split("</section>")[0]
    assert "No other rebuild of this cluster had succeeded before it." in card
    assert "dump" not in card
    assert "Expected</dt>" not in card


def test_what_runs_has_no_summary_and_asks_nothing_for_it(
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
