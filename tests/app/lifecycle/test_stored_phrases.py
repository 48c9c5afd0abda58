"""Phrases of stored texts: the row keeps the English text, and a phrase beside it."""

import json
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import from_record
from dbops.engine.phrases import Phrase, joined, packed, phrase
from dbops.engine.rebuilds.plan import Finding, Plan
from dbops.engine.states import RunStatus, Severity, Status
from dbops.lifecycle import leases, rebuild_driver
from dbops.lifecycle.events import log_event
from dbops.lifecycle.external_runs import change
from dbops.lifecycle.leases import Update
from dbops.models import BackupEvent, BackupRun, Rebuild, RebuildEvent
from dbops.models.phrases import KEY
from dbops.worker.journal import RebuildJournal
from tests.app.factories import make_event, make_plan, make_rebuild, make_run, make_trio

pytestmark = pytest.mark.django_db
SECRET = "opensesame"


@pytest.fixture
def rebuild() -> Rebuild:
    _, source, target = make_trio()
    return make_rebuild(target=target, source=source, status=Status.RUNNING)


def raw(table: str, column: str, pk: int) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column} FROM dbops_{table} WHERE id = %s", [pk])  # noqa: S608 - names of this file
        found = cursor.fetchone()[0]
    return json.loads(found) if isinstance(found, str) and found[:1] in "[{" else found


def failure() -> RemoteFailure:
    return RemoteFailure("host.job", phrase("Copying from {source}", source="db-1"), cause="said by a tool")


def test_error_is_a_phrase_again_when_it_is_read(rebuild: Rebuild) -> None:
    error = failure()
    Rebuild.objects.filter(pk=rebuild.pk).update(error=error.as_record())
    found = Rebuild.objects.get(pk=rebuild.pk).error
    assert found == error.as_record()
    assert isinstance(found["operation"], Phrase)
    assert found["operation"].values == {"source": "db-1"}
    assert not isinstance(found["cause"], Phrase)
    stored = raw("rebuild", "error", rebuild.pk)
    assert stored.pop(KEY) == {"operation": packed(error.operation)}
    assert stored == json.loads(json.dumps(error.as_record()))
    assert Rebuild.objects.filter(pk=rebuild.pk, error__code="host.job").exists()


@pytest.mark.parametrize(
    "phrases",
    [None, 3, [], {"operation": 1}, {"operation": ["{b}", {}]}, {"code": ["other", {}]}, {"none": ["none", {}]}],
)
def test_error_stays_as_stored_when_its_phrases_are_not_readable(rebuild: Rebuild, phrases: Any) -> None:
    Rebuild.objects.filter(pk=rebuild.pk).update(error={"code": "host.job", "operation": "Copying", KEY: phrases})
    found = Rebuild.objects.get(pk=rebuild.pk).error
    assert found == {"code": "host.job", "operation": "Copying"}
    assert not any(isinstance(text, Phrase) for text in found.values())


def test_line_keeps_its_english_text_and_its_phrase(rebuild: Rebuild) -> None:
    log_event(rebuild, phrase("Cancel requested by {by}.", by="olga"))
    event = rebuild.events.get()
    assert event.text == "Cancel requested by olga."
    assert isinstance(event.text, Phrase)
    assert RebuildEvent.objects.filter(text="Cancel requested by olga.").count() == 1
    assert raw("rebuildevent", "text", event.pk) == "Cancel requested by olga."


@pytest.mark.parametrize("data", [None, [], ["{b}", {}], ["another text", {}], {"a": 1}, "text"])
def test_line_stays_as_stored_when_its_phrase_is_not_of_it(rebuild: Rebuild, data: Any) -> None:
    event = make_event(rebuild, "said by a tool")
    RebuildEvent.objects.filter(pk=event.pk).update(text_phrase=data)
    found = rebuild.events.get()
    assert (found.text, isinstance(found.text, Phrase)) == ("said by a tool", False)
    assert rebuild.events.defer("text_phrase").get().text == "said by a tool"


def test_outcomes_of_rebuilds_and_runs_are_phrases(rebuild: Rebuild) -> None:
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease
    outcome = joined((phrase("Started."), phrase("The command succeeded.")))
    rebuild_driver.finish(lease, Status.SUCCEEDED, outcome)
    rebuild.refresh_from_db()
    assert isinstance(rebuild.outcome, Phrase)
    assert raw("rebuild", "outcome", rebuild.pk) == "Started. The command succeeded."
    last = rebuild.events.latest("pk").text
    assert isinstance(last, Phrase)
    assert isinstance(last.values["outcome"], Phrase)
    run = make_run(rebuild.source, started_at=timezone.now())
    change(run, outcome=phrase("The command succeeded."))
    assert isinstance(BackupRun.objects.get(pk=run.pk).outcome, Phrase)
    change(run, outcome="")
    assert BackupRun.objects.values_list("outcome", "outcome_phrase").get(pk=run.pk) == ("", None)


def test_secret_is_in_neither_form_of_a_line_or_error(rebuild: Rebuild) -> None:
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease
    journal = RebuildJournal(lease, [SECRET])
    journal.say(phrase("The dump program wrote: {line}", line=f"bad {SECRET}"))
    journal.say(phrases_with_unused(SECRET))
    error = RemoteFailure("host.job", phrase("Running {statement} on {place}", statement=SECRET, place="db-1"))
    journal.end_badly(Status.FAILED, {}, last_step="clean-up", error=error)
    rebuild.refresh_from_db()
    assert isinstance(rebuild.error["operation"], Phrase)
    assert SECRET not in str(raw("rebuild", "error", rebuild.pk))
    lines = list(rebuild.events.values_list("text", "text_phrase"))
    assert SECRET not in str(lines)
    assert [bool(packed_line) for _, packed_line in lines] == [True] * len(lines)


def phrases_with_unused(secret: str) -> Phrase:
    """A phrase with a value that its text does not show."""
    return Phrase("one row", {"unused": secret}, "{unused}", 1)


def test_lines_of_a_run_are_phrases_when_many_are_written_at_once(rebuild: Rebuild) -> None:
    run = make_run(rebuild.source, started_at=timezone.now(), status=RunStatus.RUNNING, origin="managed")
    lease = leases.take(BackupRun, run.pk)
    assert lease
    events = [BackupEvent(run=run, at=timezone.now(), level="info", text=phrase("Started.")) for _ in range(2)]
    leases.heartbeat(lease, Update(events=events))
    assert [isinstance(event.text, Phrase) for event in run.events.all()] == [True, True]


def test_note_of_a_step_is_a_phrase(rebuild: Rebuild) -> None:
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease
    journal = RebuildJournal(lease, [])
    journal.begin(rebuild.steps.earliest("pk").name)
    journal.progress(note=phrase("flushing data to disk"), percent=1.5)
    journal.flush()
    found = rebuild.steps.earliest("pk").progress
    assert found == {"note": "flushing data to disk", "percent": 1.5}
    assert isinstance(found["note"], Phrase)


def test_plan_is_made_of_phrases_again_when_it_is_read() -> None:
    _, source, target = make_trio()
    seen = phrase("{member} probed {age} s ago.", member="db-1", age=3)
    finding = Finding("facts.fresh", Severity.OK, phrase("Age of the facts"), seen)
    reasons = ("plain", phrase("{number} threads", number=4))
    plan = make_plan(target=target, source=source, findings=(finding,), stream_reasons=reasons)
    made = make_rebuild(target=target, source=source, plan=plan)
    found = from_record(Plan, Rebuild.objects.get(pk=made.pk).plan)
    assert found == plan
    assert found.fingerprint == plan.fingerprint
    [read] = found.findings
    assert isinstance(read.seen, Phrase)
    assert read.seen.values == {"member": "db-1", "age": "3"}
    assert [isinstance(reason, Phrase) for reason in found.stream_reasons] == [False, True]
