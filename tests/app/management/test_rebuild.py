"""``manage.py rebuild``: the start options and the queue position, as on the pages."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from dbops.engine.rebuilds.plan import PlannedStep
from dbops.engine.states import Status
from dbops.management.commands.rebuild import predicted
from dbops.models import AuditEntry, Instance, Rebuild
from tests.app.factories import make_instance, make_operator, make_rebuild, make_trio
from tests.app.loaders.test_cluster_snapshots import make_run, make_schedule
from tests.said import names, numbers

pytestmark = pytest.mark.django_db


@pytest.fixture
def trio(monkeypatch: pytest.MonkeyPatch) -> tuple[Instance, Instance, Instance]:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)
    make_operator()
    return make_trio()


def say(*arguments: str, target: str = "replica-1") -> tuple[str, int]:
    """Return what the command prints, and its exit status."""
    out, status = StringIO(), 0
    try:
        call_command("rebuild", target, *arguments, "--as", "olga", stdout=out)
    except SystemExit as end:
        status = int(end.code or 0)
    return out.getvalue(), status


def test_plan_command_shows_blockers_and_start_options(trio: tuple[Instance, ...]) -> None:
    run = make_run(trio[1], schedule=make_schedule(trio[1], expected_seconds=7200))
    text, status = say("--plan")
    assert status == 0
    [waits] = [line for line in text.splitlines() if names(line, run.pk, "nightly", "backup-1")]
    assert (waits.split()[0], bool(re.search(r"\b20\d\d-", waits)), "UTC" in waits) == ("waits", True, True)
    assert re.search(r"\buntil 20\d\d-", text), "the answer"
    assert f"  after-run:{run.pk}" in text


def test_plan_command_has_the_same_content_as_json(trio: tuple[Instance, ...]) -> None:
    run = make_run(trio[1])
    record = json.loads(say("--plan", "--json")[0])
    assert record["eligibility"]["answer"] == "unknown"
    assert record["eligibility"]["blockers"][0]["run"] == run.pk
    keys = [option["key"] for option in record["options"]]
    assert keys == ["soon", f"after-run:{run.pk}", f"stop-run:{run.pk}"]


def test_rate_with_a_reason_is_of_the_new_rebuild_and_alone_of_the_unfinished_one(trio: tuple[Instance, ...]) -> None:
    with pytest.raises(CommandError):
        say("--rate", "16")
    assert say("--reason", "disk died", "--rate", "16")[1] == 0
    assert Rebuild.objects.get().stream_rate == 16 * 2**20
    assert say("--rate", "8")[1] == 0
    assert Rebuild.objects.get().stream_rate == 8 * 2**20


def test_rebuild_command_stores_start_and_expiry(trio: tuple[Instance, ...]) -> None:
    run = make_run(trio[1])
    text, status = say("--reason", "disk died", "--start", f"after-run:{run.pk}", "--expires-hours", "3")
    rebuild = Rebuild.objects.get()
    assert (numbers(text), rebuild.status, status) == ([rebuild.pk], "queued", 0)
    assert rebuild.start_after_run == run
    assert rebuild.expires_at is not None
    assert abs(rebuild.expires_at - (timezone.now() + timedelta(hours=3))) < timedelta(minutes=1)
    assert AuditEntry.objects.get(action="rebuild.requested").detail["start"] == f"after-run:{run.pk}"


@pytest.mark.parametrize(
    ("given", "code"),
    [(("--start", "after-run:4711"), "plan.start_stale"), (("--expires-hours", "169"), "plan.expiry")],
)
def test_rebuild_command_refuses_options_that_are_not_offered(
    trio: tuple[Instance, ...], given: tuple[str, str], code: str
) -> None:
    text, status = say("--reason", "disk died", *given)
    assert (code in text, status) == (True, 2)
    assert not Rebuild.objects.exists()


def test_rebuild_command_starts_soonest_without_an_option(trio: tuple[Instance, ...]) -> None:
    make_run(trio[1])
    assert say("--reason", "disk died")[1] == 0
    rebuild = Rebuild.objects.get()
    assert (rebuild.start_after_run, rebuild.not_before) == (None, None)
    assert names(rebuild.events.get().text, "olga", rebuild.reason)


def test_rebuild_command_changes_the_queue_position(trio: tuple[Instance, ...]) -> None:
    other = make_instance("replica-2", cluster=trio[0].cluster)
    make_rebuild(target=other, source=trio[1], status=Status.QUEUED, priority=4)
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=Status.QUEUED)
    assert numbers(say("--first")[0]) == [rebuild.pk, 5]
    found = json.loads(say("--priority", "-1", "--json")[0])
    assert (found["rebuild"], found["priority"]) == (rebuild.pk, -1)
    assert say("--priority", "99")[1] == 2
    rebuild.refresh_from_db()
    assert rebuild.priority == -1


def test_rebuild_command_refuses_a_position_without_a_rebuild(trio: tuple[Any, ...]) -> None:
    with pytest.raises(CommandError, match="replica-1") as caught:
        say("--first")
    assert caught.value.returncode == 2


@pytest.mark.parametrize(
    ("likely", "late", "expected"),
    [(None, None, []), (12.34, None, ["12.3"]), (12.34, 20.0, ["12.3", "20.0"])],
)
def test_predicted_shows_p50_and_p90_of_a_step(likely: float | None, late: float | None, expected: list[str]) -> None:
    step = PlannedStep("stream", "Stream", predicted_seconds=likely, predicted_p90_seconds=late)
    assert re.findall(r"\d+\.\d", predicted(step)) == expected
    of_others = predicted(replace(step, is_of_others=True))
    assert of_others.startswith(predicted(step))
    assert (of_others == predicted(step)) == (likely is None)
