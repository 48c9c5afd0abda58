"""The weekly report is an event: once a week, by the rules that want it, with the numbers of the report."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from dbops.models import NotificationEvent
from dbops.worker import tasks
from tests.app.factories import make_watched_trio

from . import rows
from .conftest import Clock
from .receivers import HttpReceiver, MailReceiver
from .rows import send

pytestmark = pytest.mark.django_db


def watched(moment: Clock) -> None:
    moment.now = datetime(2026, 3, 8, 7, tzinfo=UTC)
    tasks.watch_notifications()
    moment.now = datetime(2026, 3, 9, 5, 59, tzinfo=UTC)
    away = datetime(2026, 3, 4, 10, tzinfo=UTC)
    make_watched_trio(since=moment.now - timedelta(days=30), away=away, back=away + timedelta(hours=2), now=moment.now)


def test_report_is_sent_once_a_week(moment: Clock, http: HttpReceiver, letters: MailReceiver) -> None:
    rows.channel(letters.address(), "mail", kind="message")
    rows.channel(http.address)
    for channel in ("mail", "hook"):
        rows.rule(channel, channel, events=["report.weekly"])
    watched(moment)
    tasks.watch_notifications()
    assert send() == 0
    for hours in (1, 2, 80, 160):
        moment.now = datetime(2026, 3, 9, 6, tzinfo=UTC) + timedelta(hours=hours)
        tasks.watch_notifications()
        tasks.send_notifications()
    [envelope] = letters.taken
    assert isinstance(envelope.content, bytes)
    text = envelope.content.decode().replace("=\r\n", "").replace("\r\n", "\n")
    assert "2 h 00 min (1.2 %)" in text
    assert "text/html" in text
    [report] = [json.loads(body) for *_, body in http.seen]
    assert (report["type"], report["data"]["seconds"]["short"]) == ("report.weekly", 7200)
    assert report["data"]["period"]["start"].startswith("2026-03-02")
    moment.now = datetime(2026, 3, 16, 7, tzinfo=UTC)
    tasks.watch_notifications()
    tasks.send_notifications()
    assert (len(letters.taken), len(http.seen)) == (2, 2)


def test_report_of_the_week_before_the_first_look_is_not_sent(moment: Clock, http: HttpReceiver) -> None:
    rows.channel(http.address)
    rows.rule(events=["report.weekly"])
    moment.now = datetime(2026, 3, 11, 7, tzinfo=UTC)
    for _ in range(2):
        tasks.watch_notifications()
    assert (send(), NotificationEvent.objects.filter(kind="report.weekly").exists()) == (0, False)
