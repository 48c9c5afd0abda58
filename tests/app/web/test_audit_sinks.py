"""The page and the command of audit sinks: who may, what is refused, what is recorded, and that no token is shown."""

import re
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone, translation

from dbops.audit.log import append, current_head
from dbops.lifecycle import clock_steps
from dbops.models import AuditEntry, AuditSink
from dbops.queries.monitoring import metrics
from tests.app.factories import make_user
from tests.app.pauses import act_in_pauses

from .test_admin_users import error_codes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
PAGE = "/admin/audit-sinks/"
TOKEN = "t0ken-that-is-never-shown"
NEW = {"name": "siem", "address": "https://siem.corp/in", "token": TOKEN}


@pytest.fixture
def admin(db: None) -> Client:
    user = make_user("root")
    User.objects.filter(pk=user.pk).update(is_superuser=True)
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


@pytest.fixture
def sink(admin: Client) -> AuditSink:
    assert admin.post(PAGE, NEW).status_code == 302
    return AuditSink.objects.get()


def run(*words: str) -> str:
    out = StringIO()
    call_command("audit", "sink", *words, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("path", ["", "{pk}/test/", "{pk}/remove/"])
def test_only_superusers_may(sink: AuditSink, operator: Client, viewer: Client, path: str) -> None:
    for client in (operator, viewer):
        assert client.post(PAGE + path.format(pk=sink.pk), NEW).status_code == 403
    assert operator.get(PAGE).status_code == 403
    assert AuditSink.objects.count() == 1


def test_a_token_is_shown_and_stored_nowhere_in_clear(sink: AuditSink, admin: Client) -> None:
    assert sink.token == TOKEN
    with connection.cursor() as cursor:
        cursor.execute("SELECT token FROM dbops_auditsink")
        assert TOKEN not in cursor.fetchone()[0]
    wrong = admin.post(PAGE, NEW | {"name": "other", "address": "ftp://x"})
    for answer in (admin.get(PAGE), wrong):
        assert TOKEN not in answer.content.decode()
    added = AuditEntry.objects.get(action="audit.sink_added")
    assert (added.actor, added.subject) == ("root", "siem")
    assert added.detail == {"address": NEW["address"], "after": added.sequence - 1, "token": True, "ca": False}
    assert TOKEN not in run("list")


@pytest.mark.parametrize(
    "wrong",
    [
        *({"name": "siem"}, {"address": "http://siem.corp/"}, {"address": "https://u:p@siem/"}),
        *({"address": "syslog+tcp://siem"}, {"ca": "no certificate"}, {"ca": "é"}, {"token": "a\tb"}, {"token": "é"}),
        *({"after": "99999"}, {"address": "http://127.0.0.1/", "ca": "x"}),
    ],
)
def test_what_cannot_work_is_refused(sink: AuditSink, admin: Client, wrong: dict[str, str]) -> None:
    answer = admin.post(PAGE, NEW | {"name": "other"} | wrong)
    assert (answer.status_code, error_codes(answer)) == (422, {"__all__": ["audit.sink_invalid"]})
    assert AuditSink.objects.count() == 1


@pytest.mark.parametrize("wrong", [{"address": "ftp://siem.corp/"}, {"address": "https://u:p@siem/"}, {"ca": "é"}])
def test_refusals_of_a_sink_follow_the_language(admin: Client, wrong: dict[str, str]) -> None:
    found = {}
    for language in ("en", "ja"):
        admin.cookies["dbops_language"] = language
        with translation.override(language):
            form = admin.post(PAGE, NEW | wrong).context["form"]
            [found[language]] = map(str, form.errors["__all__"])
    words = re.findall(r"(?:[a-z]+ ){2,}[a-z]+", found["ja"])
    assert not any(part in found["en"] for part in words)
    assert found["ja"] != found["en"]


def test_the_page_shows_what_each_sink_has(sink: AuditSink, admin: Client) -> None:
    error = {"code": "audit.sink_rejected", "cause": "<b>no</b>", "next_step": "Look."}
    AuditSink.objects.update(error=error, failures=1, failed_at=timezone.now(), dropped=7)
    answer = admin.get(PAGE)
    [row] = answer.context["sinks"]
    assert (row.waiting, row.state, row.sink.dropped, row.is_tested, row.is_encrypted) == (1, "failing", 7, False, True)
    assert f'data-sink="{sink.pk}" data-state="failing"' in answer.content.decode()
    assert "#audit.sink_rejected" in answer.content.decode()
    assert "<b>no</b>" not in answer.content.decode()


def test_a_test_writes_an_entry_and_makes_the_sink_due(sink: AuditSink, admin: Client) -> None:
    later = timezone.now() + timedelta(hours=1)
    AuditSink.objects.update(next_try_at=later)
    assert admin.post(f"{PAGE}{sink.pk}/test/").status_code == 302
    entry = AuditEntry.objects.get(action="audit.sink_tested")
    sink.refresh_from_db()
    assert (sink.tested_sequence, entry.subject, sink.next_try_at < later) == (entry.sequence, "siem", True)
    assert 'data-test="no"' in admin.get(PAGE).content.decode()
    AuditSink.objects.update(sent_sequence=entry.sequence)
    assert 'data-test="yes"' in admin.get(PAGE).content.decode()


def test_removing_asks_first(sink: AuditSink, admin: Client) -> None:
    assert admin.get(f"{PAGE}{sink.pk}/remove/").status_code == 200
    assert AuditSink.objects.exists()
    assert admin.post(f"{PAGE}{sink.pk}/remove/").status_code == 302
    assert not AuditSink.objects.exists()
    assert AuditEntry.objects.get(action="audit.sink_removed").detail["sent"] == sink.sent_sequence
    for path in ("test", "remove"):  # a second click
        assert admin.post(f"{PAGE}{sink.pk}/{path}/").status_code == 404


def test_the_command_adds_lists_and_removes(tmp_path: Path) -> None:
    for number in range(3):
        append(actor="olga", action="login.failed", subject=str(number))
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    run("add", "siem", "https://siem.corp/in", "--token-file", str(token), "--after", "1")
    head = current_head().sequence
    run("add", "new", "syslog+tls://siem.corp")
    assert AuditSink.objects.get(name="siem").token == TOKEN
    assert dict(AuditSink.objects.values_list("name", "sent_sequence")) == {"siem": 1, "new": head}
    assert [line.split("\t")[0] for line in run("list").splitlines()] == ["new", "siem"]
    run("remove", "new")
    for words in (
        ["remove", "new"],
        ["test", "new"],
        ["add", "siem", "https://x/"],
        ["add", "a", "https://x/", "--ca", "/none"],
    ):
        with pytest.raises(CommandError):
            run(*words)
    assert AuditSink.objects.count() == 1


@pytest.mark.parametrize("arrives", [True, False])
def test_the_command_tests(sink: AuditSink, monkeypatch: pytest.MonkeyPatch, arrives: bool) -> None:
    def work(_: float) -> None:
        error = {"code": "audit.sink_rejected", "operation": "Sending", "cause": "HTTP 500", "next_step": "Look."}
        values: dict[str, Any] = {"error": error, "failed_at": timezone.now()}
        AuditSink.objects.update(**({"sent_sequence": current_head().sequence} if arrives else values))

    # in place of the worker, while the command waits
    act_in_pauses(monkeypatch, "dbops.management.audit_sinks", work)
    if arrives:
        said = run("test", "siem")
        assert current_head().hash in said
    else:
        with pytest.raises(CommandError) as refused:
            run("test", "siem")
        assert "[audit.sink_rejected]" in str(refused.value)


def test_metrics(sink: AuditSink) -> None:
    AuditSink.objects.update(dropped=7)
    found = {metric.name: metric.samples for metric in metrics(timezone.now())}
    assert found["dbops_audit_sink_waiting"] == [({"sink": "siem"}, 1.0)]
    assert found["dbops_audit_sink_dropped_total"] == [({"sink": "siem"}, 7.0)]
    assert found["dbops_audit_sink_last_sent_timestamp_seconds"] == []


def test_a_clock_that_is_set_back_delays_no_delivery(sink: AuditSink) -> None:
    now = timezone.now()
    ahead = now + timedelta(days=1)
    AuditSink.objects.update(next_try_at=ahead, lease_until=ahead)
    clock_steps.bring_back(now)
    sink.refresh_from_db()
    assert sink.next_try_at <= now
    assert sink.lease_until is not None
    assert sink.lease_until < now + timedelta(minutes=2)
