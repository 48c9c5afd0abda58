"""The weekly e-mail: once for each week, to those who want it, with the numbers of the report."""

import socket
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from django.core import mail

from dbops.models import SentReport
from dbops.queries.availability.report import last_week
from dbops.worker import tasks, weekly_report
from tests.app.factories import make_watched_trio

pytestmark = pytest.mark.django_db
#: A Monday, 07:00.
NOW = datetime(2026, 3, 9, 7, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _wanted(settings: Any) -> None:
    settings.REPORT_RECIPIENTS, settings.REPORT_FROM = ["boss@example.org", "dba@example.org"], "dbops@example.org"


def watched() -> None:
    """A trio whose replica was away for two hours of Wednesday."""
    away = datetime(2026, 3, 4, 10, tzinfo=UTC)
    make_watched_trio(since=NOW - timedelta(days=30), away=away, back=away + timedelta(hours=2), now=NOW)


def test_report_is_sent_once_a_week() -> None:
    watched()
    assert weekly_report.send_report(NOW)
    assert not weekly_report.send_report(NOW)
    assert not weekly_report.send_report(NOW + timedelta(days=3))
    [message] = mail.outbox
    assert "2 March 2026" in message.subject
    assert (message.to, message.from_email) == (["boss@example.org", "dba@example.org"], "dbops@example.org")
    assert "2 h 00 min (1.2 %)" in message.body
    [(html, kind)] = message.alternatives  # type: ignore[attr-defined]
    assert kind == "text/html"
    assert "2 h 00 min" in str(html)
    assert "href=" not in str(html)
    row = SentReport.objects.get()
    assert (row.monday, row.sent_at) == (date(2026, 3, 2), NOW)
    assert weekly_report.send_report(NOW + timedelta(days=7))
    assert len(mail.outbox) == 2


def test_send_report_does_nothing_without_recipients_or_too_early(settings: Any) -> None:
    assert weekly_report.send_report(datetime(2026, 3, 9, 5, 59, tzinfo=UTC)) is False
    settings.REPORT_RECIPIENTS = []
    assert weekly_report.send_report(NOW) is False
    assert not SentReport.objects.exists()
    assert mail.outbox == []


class Letters:
    """A mail server's side: it takes what olga sends, and refuses everything while ``is_full``."""

    def __init__(self) -> None:
        self.taken: list[Envelope] = []
        self.is_full = False

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - its name there
        if self.is_full:
            return "452 no room for secret-account@mail.example"
        assert session.authenticated
        self.taken.append(envelope)
        return "250 OK"


def knows(server: SMTP, session: Session, envelope: Envelope, mechanism: str, account: LoginPassword) -> AuthResult:
    is_right = (account.login, account.password) == (b"olga", b"letter-secret")
    return AuthResult(success=is_right, handled=is_right)


@pytest.fixture
def letters(settings: Any) -> Iterator[Letters]:
    """A real mail server that asks for an account."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    found = Letters()
    server = Controller(found, hostname="127.0.0.1", port=port, authenticator=knows, auth_require_tls=False)
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", port, False
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "olga", "letter-secret"
    server.start()
    yield found
    server.stop()


def test_report_is_accepted_by_a_mail_server(letters: Letters) -> None:
    assert weekly_report.send_report(NOW)
    [envelope] = letters.taken
    assert (envelope.mail_from, envelope.rcpt_tos) == ("dbops@example.org", ["boss@example.org", "dba@example.org"])
    assert isinstance(envelope.content, bytes)
    subject = envelope.content.partition(b"Subject: ")[2].partition(b"\r\n")[0]
    assert b"2 March 2026" in subject


def test_send_report_retries_after_a_failure(letters: Letters, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    letters.is_full = True
    assert weekly_report.send_report(NOW) is False
    letters.is_full = False
    settings.EMAIL_HOST_PASSWORD = "another"
    assert weekly_report.send_report(NOW) is False
    assert "SMTPDataError" in caplog.text
    assert "SMTPAuthenticationError" in caplog.text
    assert "secret-account" not in caplog.text
    assert "letter-secret" not in caplog.text
    settings.EMAIL_HOST_PASSWORD = "letter-secret"
    assert weekly_report.send_report(NOW + timedelta(hours=1))
    assert len(letters.taken) == 1


def test_send_report_retries_when_the_mail_server_is_unreachable(settings: Any, letters: Letters) -> None:
    port, settings.EMAIL_PORT = settings.EMAIL_PORT, 1
    assert weekly_report.send_report(NOW) is False
    settings.EMAIL_PORT = port
    assert weekly_report.send_report(NOW + timedelta(hours=1))


def test_report_claimed_by_another_process_is_skipped() -> None:
    SentReport.objects.create(monday=date(2026, 3, 2), claimed_at=NOW)
    assert weekly_report.send_report(NOW) is False
    assert mail.outbox == []


def test_report_weeks_follow_the_local_clock() -> None:
    zone = ZoneInfo("Europe/Berlin")
    monday, span = last_week(datetime(2026, 3, 29, 22, 30, tzinfo=UTC), zone)
    assert (monday, span.period.seconds / 3600) == (date(2026, 3, 23), 7 * 24 - 1)
    monday, _ = last_week(datetime(2026, 3, 29, 21, 30, tzinfo=UTC), zone)
    assert monday == date(2026, 3, 16), "it is Sunday still"


def test_task_sends_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    tasks.send_weekly_report()
    tasks.send_weekly_report()
    assert len(mail.outbox) == 1
