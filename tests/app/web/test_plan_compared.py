"""How the plan's page compares the methods: times from the cluster's rebuilds, else from those of others, the pause, the roll-forward."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.engine.rebuilds.methods import FOLLOW_UPS, METHODS
from dbops.engine.states import Status, StepState
from dbops.loaders.step_history import histories_of
from dbops.models import Instance, InstanceState, Rebuild, Step
from tests.app import rows
from tests.app.factories import GIB, make_rebuild, make_trio

from .test_plan import ADDRESS
from .test_plan_methods import able_to_unpack, finished

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def make_past(trio: Any, method: str = "xbstream", *, taken_at: datetime | None = None, **memory: Any) -> Rebuild:
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
        memory={"stream.bytes": 10 * GIB, **memory},
    )
    if taken_at:
        Rebuild.objects.filter(pk=past.pk).update(plan={**past.plan, "archive": {"taken_at": taken_at.isoformat()}})
    past.steps.all().delete()
    steps = (METHODS.get(method) or FOLLOW_UPS[method]).steps
    lasts = {"stream": 100, "catch-up": 60}
    for position, step in enumerate(steps):
        ended = began + timedelta(seconds=lasts.get(step.name, 10))
        Step.objects.create(rebuild=past, position=position, name=step.name, title=step.title, state=StepState.DONE,
                            started_at=began, finished_at=ended)  # fmt: skip
        began = ended
    return past


def cells(page: str, method: str) -> dict[str, str]:
    """Return what stands in the row of a method, by the head of its column."""
    table = page.split('id="methods"')[1].split("</section>")[0]
    row = next(part for part in table.split("<tr")[2:] if f">{method}</a>" in part)
    found = re.findall(r'data-label="([^"]+)"[^>]*>(.*?)</t[dh]>', row, re.S)
    return {label: " ".join(re.sub(r"<[^>]+>", " ", text).split()) for label, text in found}


def of(client: Client, method: str, **asked: str) -> dict[str, str]:
    return cells(client.get(ADDRESS, asked).content.decode(), method)


def of_statements(instance: Instance) -> None:
    """Let an instance replicate by statements: its replication must be paused while it is read."""
    record = InstanceState.objects.get(instance=instance).record
    record["server"]["binlog_format"] = "STATEMENT"
    InstanceState.objects.filter(instance=instance).update(record=record)


def test_the_own_rebuilds_say_how_long_and_whose_they_are(viewer: Client) -> None:
    fleet = rows.make_fleet()
    assert of(viewer, "xbstream")["Predicted"] == "not known yet"
    make_past(list(fleet.values()))
    found = of(viewer, "xbstream")
    # ten steps of 10 s, the copy of 100 s, and 60 s of roll-forward: the copy is as large, and its data as old
    assert len(METHODS["xbstream"].steps) == 13
    assert found["Predicted"] == "4 min 30 s from 1 rebuild of this cluster"
    assert found["Data is of"] == "now about 1 min 00 s to roll forward"
    assert found["Source's replication"] == "goes on"


def test_a_method_that_was_never_used_here_is_told_by_other_clusters(viewer: Client) -> None:
    fleet = rows.make_fleet()
    finished(fleet["backup-1"])
    able_to_unpack(fleet)
    assert of(viewer, "archive")["Predicted"] == "not known yet"
    assert "how long to roll forward is not known yet" in of(viewer, "archive")["Data is of"]
    began = timezone.now() - 2 * DAY
    for name in ("legacy", "third", "fourth"):
        make_past(make_trio(name), "archive", taken_at=began - HOUR)
    found = of(viewer, "archive")
    assert found["Predicted"].endswith("from 3 rebuilds of other clusters")
    assert found["Predicted"].startswith("3 min ")
    page = " ".join(viewer.get(f"{ADDRESS}?method=archive").content.decode().split())
    assert "(3 runs of other clusters)" in page
    assert "the sum of the steps: rolling forward follows the age of the backup" in page
    assert of(viewer, "xbstream")["Predicted"] == "not known yet", "another method tells nothing"


def test_an_older_backup_is_predicted_to_roll_forward_longer(viewer: Client) -> None:
    fleet = rows.make_fleet()
    run = finished(fleet["backup-1"])
    able_to_unpack(fleet)
    past = make_past(list(fleet.values()), "archive")
    rolled = past.steps.get(name="catch-up").started_at
    assert rolled
    plan = {**past.plan, "archive": {"taken_at": (rolled - timedelta(seconds=6000)).isoformat()}}
    Rebuild.objects.filter(pk=past.pk).update(plan=plan)  # 60 s for 6000 s of age
    for days, said in ((1, "about 14 min"), (7, "about 1 h 40 min")):
        run.started_at = timezone.now() - days * DAY
        run.save(update_fields=["started_at"])
        assert said in of(viewer, "archive")["Data is of"]


def test_a_method_that_pauses_says_for_how_long(viewer: Client) -> None:
    fleet = rows.make_fleet()
    of_statements(fleet["backup-1"])
    assert of(viewer, "xbstream")["Source's replication"] == "paused meanwhile how long is not known yet"
    make_past(list(fleet.values()))
    assert of(viewer, "xbstream")["Source's replication"] == "paused meanwhile about 2 min 00 s"
    finished(fleet["backup-1"])
    assert of(viewer, "archive")["Source's replication"] == "goes on"


def test_a_retry_counts_for_the_method_whose_copy_it_goes_on_with() -> None:
    trio = make_trio()
    past = make_past(trio, "retry")
    Rebuild.objects.filter(pk=past.pk).update(plan={**past.plan, "copied_by": "archive"})
    make_past(trio, "put-back")
    found = histories_of(trio[2].cluster_id)
    assert set(found.own) == {"archive"}
    assert found.own["archive"].seconds["start"] == (10.0,)
    assert found.own["archive"].bytes_per_second["prepare"] == (GIB,)
    assert found.others == {}
    assert set(histories_of(make_trio("legacy")[2].cluster_id).others) == {"archive"}


def test_a_method_that_is_rare_is_not_crowded_out_by_the_usual_one() -> None:
    here, there = make_trio(), make_trio("legacy")
    rare = make_past(there, "archive")
    Rebuild.objects.filter(pk=rare.pk).update(finished_at=timezone.now() - 50 * DAY)
    for _ in range(25):
        make_past(there)
    found = histories_of(here[2].cluster_id)
    assert len(found.others["xbstream"].seconds["start"]) == 20
    assert len(found.others["archive"].seconds["start"]) == 1


def test_the_history_of_the_fleet_takes_one_query() -> None:
    here, there = make_trio(), make_trio("legacy")
    for trio in (here, there):
        make_past(trio)
    with CaptureQueriesContext(connection) as asked:
        found = histories_of(here[2].cluster_id)
    assert len(asked) == 1
    assert (set(found.own), set(found.others)) == ({"xbstream"}, {"xbstream"})


def test_the_time_of_all_steps_by_another_method_is_told_by_the_fleet(viewer: Client) -> None:
    """The size of what would be read was not given, and so the rebuilds of others could say nothing."""
    fleet = rows.make_fleet()
    make_past(make_trio("legacy"), "clone")
    page = " ".join(viewer.get(f"{ADDRESS}?source={fleet['backup-1'].name}&method=clone").content.decode().split())
    assert (
        "The time of all steps is from the size of the source and the speed of this fleet&#x27;s other rebuilds."
        in page
    )
    assert "the size of the source was not measured yet" not in page
