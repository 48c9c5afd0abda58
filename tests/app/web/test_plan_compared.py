"""How the plan's page compares the methods: times from the cluster's rebuilds, else from those of others, the pause, the roll-forward."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape

from dbops.engine.methods import FOLLOW_UPS, METHODS
from dbops.engine.planning.method_comparison import MethodComparison
from dbops.engine.states import Status, StepState
from dbops.loaders.step_history import step_histories_of
from dbops.models import Instance, InstanceState, Rebuild, RebuildStep
from dbops.web.templatetags.dbops import duration
from tests.app import rows
from tests.app.factories import GIB, make_rebuild, make_trio

from .marks import marks, part, text_of
from .test_plan import ADDRESS
from .test_plan_methods import able_to_unpack, finished

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def make_past(trio: Any, method: str = "xbstream", *, taken_at: datetime | None = None, **checkpoint: Any) -> Rebuild:
    """Leave a rebuild that succeeded: each step took 10 s, the copy 100 s for 10 GiB, the roll-forward 60 s."""
    _, source, target = trio
    began = timezone.now() - 2 * DAY
    past = make_rebuild(
        target=target,
        source=source,
        method=method,
        status=Status.SUCCEEDED,
        started_at=began,
        finished_at=began + HOUR,
        checkpoint={"stream.bytes": 10 * GIB, **checkpoint},
    )
    if taken_at:
        Rebuild.objects.filter(pk=past.pk).update(plan={**past.plan, "archive": {"taken_at": taken_at.isoformat()}})
    past.steps.all().delete()
    steps = (METHODS.get(method) or FOLLOW_UPS[method]).steps
    lasts = {"stream": 100, "catch-up": 60}
    for position, step in enumerate(steps):
        ended = began + timedelta(seconds=lasts.get(step.name, 10))
        RebuildStep.objects.create(rebuild=past, position=position, name=step.name, title=step.title, state=StepState.DONE,
                            started_at=began, finished_at=ended)  # fmt: skip
        began = ended
    return past


def of(client: Client, method: str, **asked: str) -> MethodComparison:
    """Return a method as the page compares it, and hold what its row marks equal to that."""
    answer = client.get(ADDRESS, asked)
    [one] = [choice.compared for choice in answer.context["methods"] if choice.compared.method == method]
    row = part(answer.content.decode(), f'<tr data-method="{method}"', "</tr>")
    assert marks(row, "possible") == ["yes" if one.is_possible else "no"]
    assert marks(row, "predicted") == [marked(one.predicted_seconds)]
    assert marks(row, "catch-up") == [marked(one.catch_up_seconds)]
    assert marks(row, "pause") == [marked(one.pause_seconds) if one.pauses_source else "none"]
    for seconds in (one.predicted_seconds, one.catch_up_seconds, one.pause_seconds):
        assert seconds is None or duration(seconds) in row
    return one


def marked(seconds: float | None) -> str:
    return "unknown" if seconds is None else str(seconds)


def of_statements(instance: Instance) -> None:
    """Let an instance replicate by statements: its replication must be paused while it is read."""
    record = InstanceState.objects.get(instance=instance).record
    record["server"]["binlog_format"] = "STATEMENT"
    InstanceState.objects.filter(instance=instance).update(record=record)


def test_prediction_comes_from_the_clusters_own_rebuilds(viewer: Client) -> None:
    fleet = rows.make_fleet()
    assert of(viewer, "xbstream").predicted_seconds is None
    make_past(list(fleet.values()))
    found = of(viewer, "xbstream")
    # all other steps take 10 s each, the copy 100 s, roll-forward 60 s: the copy is as large, and its data as old
    others = len(METHODS["xbstream"].steps) - 2
    assert found.predicted_seconds == 100 + 60 + 10 * others
    assert (found.own_rebuilds, found.other_rebuilds) == (1, 0)
    assert (found.data_of, found.reads_server, found.catch_up_seconds) == (None, True, 60)
    assert not found.pauses_source


def test_prediction_comes_from_other_clusters_when_the_method_was_never_used_here(viewer: Client) -> None:
    fleet = rows.make_fleet()
    finished(fleet["backup-1"])
    able_to_unpack(fleet)
    before = of(viewer, "archive")
    assert (before.predicted_seconds, before.catch_up_seconds) == (None, None)
    assert before.data_of
    began = timezone.now() - 2 * DAY
    for name in ("legacy", "third", "fourth"):
        make_past(make_trio(name), "archive", taken_at=began - HOUR)
    found = of(viewer, "archive")
    assert (found.own_rebuilds, found.other_rebuilds) == (0, 3)
    assert found.predicted_seconds is not None
    assert 180 <= found.predicted_seconds < 240
    answer = viewer.get(f"{ADDRESS}?method=archive")
    plan = answer.context["plan"]
    assert {(step.predicted_runs, step.is_of_others) for step in plan.steps} == {(3, True)}
    steps = part(text_of(answer), 'class="plan-steps"', "</ol>")
    assert steps.count("(3 runs") == len(plan.steps)
    # The whole is the sum of the steps: the rebuilds of others copied older or newer backups.
    assert duration(plan.predicted_seconds) in part(text_of(answer), 'class="figures wide"', "</dl>")
    assert of(viewer, "xbstream").predicted_seconds is None, "another method tells nothing"


def test_older_backup_rolls_forward_longer(viewer: Client) -> None:
    fleet = rows.make_fleet()
    run = finished(fleet["backup-1"])
    able_to_unpack(fleet)
    past = make_past(list(fleet.values()), "archive")
    rolled = past.steps.get(name="catch-up").started_at
    assert rolled
    plan = {**past.plan, "archive": {"taken_at": (rolled - timedelta(seconds=6000)).isoformat()}}
    Rebuild.objects.filter(pk=past.pk).update(plan=plan)  # 60 s for 6000 s of age
    for days in (1, 7):
        run.started_at = timezone.now() - days * DAY
        run.save(update_fields=["started_at"])
        assert of(viewer, "archive").catch_up_seconds == pytest.approx(days * 864, abs=20)


def test_method_that_pauses_the_source_shows_for_how_long(viewer: Client) -> None:
    fleet = rows.make_fleet()
    of_statements(fleet["backup-1"])
    before = of(viewer, "xbstream")
    assert (before.pauses_source, before.pause_seconds) == (True, None)
    make_past(list(fleet.values()))
    assert of(viewer, "xbstream").pause_seconds == 120
    finished(fleet["backup-1"])
    assert not of(viewer, "archive").pauses_source


def test_retry_counts_for_the_method_of_its_copy() -> None:
    trio = make_trio()
    past = make_past(trio, "resume")
    Rebuild.objects.filter(pk=past.pk).update(plan={**past.plan, "copied_by": "archive"})
    make_past(trio, "rollback")
    found = step_histories_of(trio[2].cluster_id)
    assert set(found.own) == {"archive"}
    assert found.own["archive"].seconds["start"] == (10.0,)
    assert found.own["archive"].bytes_per_second["prepare"] == (GIB,)
    assert found.others == {}
    assert set(step_histories_of(make_trio("legacy")[2].cluster_id).others) == {"archive"}


def test_history_keeps_a_rare_method_beside_a_common_one() -> None:
    here, there = make_trio(), make_trio("legacy")
    rare = make_past(there, "archive")
    Rebuild.objects.filter(pk=rare.pk).update(finished_at=timezone.now() - 50 * DAY)
    for _ in range(25):
        make_past(there)
    found = step_histories_of(here[2].cluster_id)
    assert len(found.others["xbstream"].seconds["start"]) == 20
    assert len(found.others["archive"].seconds["start"]) == 1


def test_history_takes_one_query() -> None:
    here, there = make_trio(), make_trio("legacy")
    for trio in (here, there):
        make_past(trio)
    with CaptureQueriesContext(connection) as asked:
        found = step_histories_of(here[2].cluster_id)
    assert len(asked) == 1
    assert (set(found.own), set(found.others)) == ({"xbstream"}, {"xbstream"})


def test_prediction_of_all_steps_comes_from_other_clusters_for_another_method(viewer: Client) -> None:
    """The size of what would be read was not given, and so the rebuilds of others could say nothing."""
    fleet = rows.make_fleet()
    make_past(make_trio("legacy"), "clone")
    answer = viewer.get(f"{ADDRESS}?source={fleet['backup-1'].name}&method=clone")
    prediction = answer.context["prediction"]
    assert prediction.duration is not None
    assert prediction.duration.runs == 1
    assert escape(prediction.reason) in text_of(answer)
