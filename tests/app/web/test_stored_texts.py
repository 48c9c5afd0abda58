"""Stored errors, lines and outcomes: pages show them in the reader's language, and programs and exports read the English text."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponseBase
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation
from django.utils.html import escape

from dbops.engine.errors import RemoteFailure
from dbops.engine.phrases import Phrase, phrase
from dbops.engine.rebuilds.certificate.inventory import DEFINITIONS
from dbops.engine.states import RunStatus, Status
from dbops.models import BackupEvent, BackupRun, LoadTest, LoadTestEvent, Rebuild
from dbops.models.phrases import KEY
from dbops.queries.rebuilds.log import LogFilter, matches
from dbops.web.state_words import OBJECTS
from dbops.web.templatetags.phrases import translated
from tests.app.api.calls import BASE, program_of
from tests.app.factories import make_event, make_rebuild, make_run, make_trio
from tests.app.load_test_rows import make_load_test, make_place, make_request, make_source

pytestmark = pytest.mark.django_db
COOKIE = "dbops_language"
LINE = phrase("Cancel requested by {by}.", by="olga")
OUTCOME = phrase("Nothing on {target} was changed.", target="replica-1")
ERROR = RemoteFailure("host.job", phrase("Copying from {source}", source="backup-1"), cause=phrase("no answer in time"))
TOOLS_LINE = "Started."


@pytest.fixture
def rebuild() -> Rebuild:
    """A failed rebuild whose log also has a line of a tool, which looks like one of dbops."""
    _, source, target = make_trio()
    row = make_rebuild(target=target, source=source, status=Status.FAILED, outcome=OUTCOME, error=ERROR.as_record())
    make_event(row, LINE)
    make_event(row, TOOLS_LINE)
    return row


@pytest.fixture
def run(rebuild: Rebuild) -> BackupRun:
    row = make_run(rebuild.source, started_at=timezone.now() - timedelta(hours=1), seconds=60, status=RunStatus.FAILED)
    row.error, row.outcome = ERROR.as_record(), OUTCOME
    row.save()
    BackupEvent.objects.create(run=row, at=timezone.now(), level="warning", text=LINE)
    return row


def in_japanese(text: str) -> str:
    with translation.override("ja"):
        found = translated(text)
    assert found != text
    return str(escape(found))


def page(client: Client, address: str, language: str = "ja") -> str:
    client.cookies[COOKIE] = language
    answer = client.get(address)
    assert answer.status_code == 200
    return text_of(answer)


def text_of(answer: HttpResponseBase) -> str:
    parts = answer.streaming_content if answer.streaming else [answer.content]  # type: ignore[attr-defined]
    return b"".join(parts).decode()


def must_show(client: Client, address: str, *texts: str) -> None:
    japanese, english = page(client, address), page(client, address, "en")
    for text in texts:
        assert in_japanese(text) in japanese
        assert str(escape(text)) not in japanese
        assert str(escape(text)) in english


@pytest.mark.parametrize("address", ["/rebuilds/{}/", "/rebuilds/{}/poll/"])
def test_page_of_a_rebuild_shows_what_is_stored_in_its_language(viewer: Client, rebuild: Rebuild, address: str) -> None:
    must_show(viewer, address.format(rebuild.pk), LINE, OUTCOME, *map(ERROR.as_record().get, ("operation", "cause")))  # type: ignore[arg-type]


def test_log_shows_its_lines_in_the_language_and_those_of_tools_as_they_are(viewer: Client, rebuild: Rebuild) -> None:
    must_show(viewer, f"/rebuilds/{rebuild.pk}/log/", LINE)
    assert TOOLS_LINE in page(viewer, f"/rebuilds/{rebuild.pk}/log/")


def test_page_of_a_backup_run_shows_what_is_stored_in_its_language(viewer: Client, run: BackupRun) -> None:
    must_show(viewer, f"/backups/runs/{run.pk}/", LINE, OUTCOME, ERROR.operation, ERROR.cause)


def test_page_of_a_load_test_shows_what_is_stored_in_its_language(viewer: Client, olga: User) -> None:
    row = make_load_test(make_request(make_source(), make_place()), actor=olga)
    LoadTest.objects.filter(pk=row.pk).update(status=RunStatus.FAILED, error=ERROR.as_record())
    LoadTestEvent.objects.create(load_test=row, at=timezone.now(), level="info", text=LINE)
    must_show(viewer, f"/load-tests/{row.pk}/", LINE, ERROR.operation, ERROR.cause)


def test_phrases_cost_no_query(viewer: Client, rebuild: Rebuild) -> None:
    address = f"/rebuilds/{rebuild.pk}/"
    page(viewer, address)
    with CaptureQueriesContext(
        connection,
    ) as with_them:
        page(viewer, address)
    forget(rebuild)
    with CaptureQueriesContext(connection) as without:
        page(viewer, address)
    assert len(with_them) == len(without)


def forget(*rows: Rebuild | BackupRun) -> None:
    """Store the rows as if nothing of them were a phrase."""
    for row in rows:
        events: Any = row.events
        events.update(text_phrase=None)
        record = {name: str(text) for name, text in row.error.items()}
        type(row).objects.filter(pk=row.pk).update(outcome_phrase=None, error=record)
        row.refresh_from_db()
        assert not isinstance(row.outcome, Phrase)


def comparable(text: str) -> str:
    """Without times; of evidence its content, without the audit entries, which have one of the reading itself."""
    if evidence := re.search(r'<script id="evidence" type="application/json">(.*?)</script>', text, re.DOTALL):
        text = json.dumps(json.loads(evidence.group(1)) | {"audit": {}})
    return re.sub(r"\d\d:\d\d:\d\d(\.\d+)?", "", text)


@pytest.mark.parametrize(
    "address",
    [
        *("/rebuilds/{rebuild}/log/text/", "/rebuilds/{rebuild}/evidence/"),
        *(BASE + "/rebuilds", BASE + "/rebuilds/{rebuild}", BASE + "/rebuilds/{rebuild}/log"),
        *(BASE + "/backup-runs", BASE + "/backup-runs/{run}"),
    ],
)
def test_programs_and_exports_read_the_english_text_alone(
    viewer: Client, victor: User, rebuild: Rebuild, run: BackupRun, address: str
) -> None:
    headers = program_of(victor, "read").headers if address.startswith(BASE) else {}
    client = Client() if headers else viewer
    client.cookies[COOKIE] = "ja"

    def read() -> str:
        answer = client.get(address.format(rebuild=rebuild.pk, run=run.pk), headers=headers)
        assert answer.status_code == 200
        return text_of(answer)

    found = read()
    assert KEY not in found
    assert "text_phrase" not in found
    forget(rebuild, run)
    assert comparable(read()) == comparable(found)


def test_record_of_an_error_is_plain_json() -> None:
    record = json.loads(json.dumps(ERROR.as_record()))
    assert record == {name: str(text) for name, text in ERROR.as_record().items()}
    assert set(record) == {"code", "who", "operation", "cause", "state", "next_step"}


def test_search_finds_a_line_by_its_english_text(rebuild: Rebuild) -> None:
    found, _ = matches(rebuild.pk, LogFilter(text="cancel requested"))
    assert found == [rebuild.events.earliest("pk").pk]


def test_each_kind_of_object_has_a_word() -> None:
    others = {"account", "function", "grant", "partition", "procedure", "sequence", "table", "tablespace"}
    assert {*DEFINITIONS, *others} <= set(OBJECTS)
    with translation.override("ja"):
        assert [kind for kind in OBJECTS if translated(kind) == kind] == []
