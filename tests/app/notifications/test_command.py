"""``manage.py notification``: all that the pages do. Secrets come from files, and leave it only where a person needs them."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from dbops.engine.notifications.events import EVENTS
from dbops.models import AuditEntry, NotificationChannel, NotificationRule
from tests.app.pauses import act_in_pauses

from . import rows
from .receivers import HttpReceiver

pytestmark = pytest.mark.django_db
ADDRESS = "https://127.0.0.1:9/in/s3cret-path"


def run(*words: str, **values: Any) -> str:
    out = StringIO()
    call_command("notification", *words, stdout=out, stderr=StringIO(), **values)
    return out.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "address"
    path.write_text(f"{ADDRESS}\n")
    return path


def test_channel_and_rule_are_added_listed_and_removed(file: Path) -> None:
    secret = run("channel", "add", "hook", "webhook", "--address-file", str(file)).strip()
    assert NotificationChannel.objects.get().secret == secret
    run("rule", "add", "all", "hook")
    run("rule", "add", "night", "hook", "--event", "backup.missed", "--quiet", "22:00", "07:00", "--digest", "hourly")
    assert NotificationRule.objects.get(name="all").events == list(EVENTS)
    listed = run("list")
    assert not any(word in listed for word in (secret, "s3cret"))
    assert {line.split("\t")[1] for line in listed.splitlines()} == {"hook", "all", "night"}
    new = run("rotate", "hook").strip()
    assert (NotificationChannel.objects.get().secret, NotificationChannel.objects.get().old_secret) == (new, secret)
    run("rule", "remove", "night")
    run("channel", "remove", "hook")
    assert not NotificationRule.objects.exists()
    assert set(AuditEntry.objects.values_list("action", flat=True)) == {
        *("notification.channel_added", "notification.rule_added", "notification.secret_rotated"),
        *("notification.rule_removed", "notification.channel_removed"),
    }


def test_secret_of_a_file_is_used(file: Path, tmp_path: Path) -> None:
    given = tmp_path / "secret"
    given.write_text("whsec_" + "c3Nz" * 10 + "\n")
    run("channel", "add", "hook", "webhook", "--address-file", str(file), "--secret-file", str(given))
    assert NotificationChannel.objects.get().secret == given.read_text().strip()


def test_events_are_those_of_the_table() -> None:
    assert [line.split("\t")[0] for line in run("events").splitlines()] == list(EVENTS)


@pytest.mark.parametrize(
    "words",
    [
        ("channel", "remove", "none"),
        ("rule", "remove", "none"),
        ("rotate", "none"),
        ("test", "none"),
        ("rule", "add", "all", "none"),
        ("channel", "add", "hook", "webhook", "--address-file", "/does/not/exist"),
        ("channel", "add", "hook", "message", "--address-file", "FILE"),
    ],
)
def test_refusal_is_one_error(words: tuple[str, ...], file: Path) -> None:
    with pytest.raises(CommandError):
        run(*(str(file) if word == "FILE" else word for word in words))
    assert not NotificationChannel.objects.exists()


def test_log_has_each_delivery() -> None:
    rows.channel(ADDRESS)
    rows.due_event(rows.rule())
    [line] = run("log", "--channel", "hook").splitlines()
    assert line.split("\t")[1:5] == ["hook", "backup.missed backup-1", "open", "waiting"]
    assert run("log", "--status", "sent") == ""


@pytest.mark.parametrize("status", [204, 400])
def test_test_waits_for_the_result(status: int, http: HttpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    rows.channel(http.address)
    http.statuses = [status]
    act_in_pauses(monkeypatch, "dbops.management.commands.notification", lambda _: rows.send())
    if status == 204:
        run("test", "hook")
    else:
        with pytest.raises(CommandError, match="notification.rejected"):
            run("test", "hook")
    assert len(http.seen) == 1


def test_test_without_a_worker_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    rows.channel(ADDRESS)
    monkeypatch.setattr("dbops.management.commands.notification.TEST_SECONDS", 0.2)
    monkeypatch.setattr("dbops.management.commands.notification.LOOK_SECONDS", 0.05)
    with pytest.raises(CommandError):
        run("test", "hook")
