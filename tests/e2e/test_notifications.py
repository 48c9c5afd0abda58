"""Notifications of a whole dashboard, with two workers and two beats: each event arrives once, and its end once."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from tests.app.audit.receivers import make_certificates
from tests.app.notifications.receivers import HttpReceiver, MailReceiver, running_http, running_mail
from tests.stack import Stack, running_stack, wait_for

pytestmark = pytest.mark.services
SOURCE = "backup-1"


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    monkeypatch.setenv("DBOPS_NOTIFICATION_NETWORKS", "127.0.0.0/8")
    monkeypatch.setenv("DBOPS_BASE_URL", "https://dbops.example.org")
    with running_stack(replicas=1, web=False) as running:
        running.start("worker-2", "beat-2")
        yield running


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[tuple[HttpReceiver, Path]]:
    make_certificates(tmp_path)
    with running_http(tmp_path) as server:
        yield server, tmp_path / "ca.pem"


@pytest.fixture
def letters() -> Iterator[MailReceiver]:
    with running_mail() as server:
        yield server


def back_up(stack: Stack) -> int:
    return stack.manage("backup", "files", "--watch", "--json", check=False, timeout=240).returncode


def add_schedule(stack: Stack, name: str, folder: str, run_by: str, cron: str) -> None:
    stack.write(
        "INSERT INTO dbops_backupschedule (name, instance_id, method, run_by, cron, time_zone, directory, keep_count,"
        " late_after_seconds, is_enabled) SELECT ?, id, 'physical', ?, ?, 'UTC', ?, 2, 1, 1"
        " FROM dbops_instance WHERE name = ?",
        *(name, run_by, cron, folder, SOURCE),
    )


def wait_for_looks(stack: Stack, count: int) -> None:
    """Wait until beat has made dbops look for events some more times."""
    for _ in range(count):
        [before] = stack.rows("SELECT looked_at FROM dbops_notificationwatch")
        wait_for(
            "the next look",
            lambda before=before: stack.rows("SELECT looked_at FROM dbops_notificationwatch") != [before],
            180,
        )


def test_missed_and_failed_backups_arrive_once_and_are_resolved(
    stack: Stack, receiver: tuple[HttpReceiver, Path], letters: MailReceiver
) -> None:
    hook, authority = receiver
    given: tuple[str, ...] = ("--ca", str(authority), "--address-file", "-")
    secret = stack.manage(
        "notification", "channel", "add", "hook", "webhook", *given, stdin=hook.address
    ).stdout.strip()
    stack.manage("notification", "channel", "add", "mail", "message", "--address-file", "-", stdin=letters.address())
    beat = f"{hook.address}/heartbeat"
    stack.manage("notification", "channel", "add", "deadman", "heartbeat", "--every-minutes", "1", *given, stdin=beat)
    for channel in ("hook", "mail"):
        words = ("--event", "backup.failed", "--event", "backup.missed")
        stack.manage("notification", "rule", "add", channel, channel, *words)

    def seen(kind: str, state: str) -> list[dict[str, Any]]:
        posts = [(headers, body) for method, _, headers, body in hook.seen if method == "POST"]
        found: list[dict[str, Any]] = [Webhook(secret).verify(body, headers) for headers, body in posts]
        return [one for one in found if (one["type"], one["data"].get("state")) == (kind, state)]

    stack.manage("notification", "test", "hook")
    wait_for("the heartbeat", lambda: [path for method, path, *_ in hook.seen if method == "GET"], 180)

    good = stack.lab.host(SOURCE).folder / "backups"
    blocked = stack.lab.host(SOURCE).folder / "file"
    blocked.write_text("no folder")
    add_schedule(stack, "files", str(blocked), "dbops", f"0 {(datetime.now(UTC).hour + 12) % 24} * * *")
    add_schedule(stack, "outside", "", "external", "* * * * *")
    assert back_up(stack) != 0
    for kind in ("backup.failed", "backup.missed"):
        wait_for(kind, lambda kind=kind: seen(kind, "open"), 240)
    stack.write("UPDATE dbops_backupschedule SET directory = ? WHERE name = 'files'", str(good))
    stack.write("UPDATE dbops_backupschedule SET is_enabled = 0 WHERE name = 'outside'")
    assert back_up(stack) == 0, stack.tail("worker")
    for kind in ("backup.failed", "backup.missed"):
        wait_for(kind, lambda kind=kind: seen(kind, "resolved"), 240)
    wait_for_looks(stack, 2)
    for kind in ("backup.failed", "backup.missed"):
        [begin], [end] = seen(kind, "open"), seen(kind, "resolved")
        assert begin["data"]["id"] == end["data"]["id"]
        assert begin["data"]["subject"] == SOURCE
        assert begin["data"]["url"].startswith("https://dbops.example.org/backups/runs/")
    wait_for("all mails", lambda: len(letters.taken) == 4)
    statuses = stack.rows("SELECT status, count(*) AS number FROM dbops_notificationdelivery GROUP BY status")
    assert statuses == [{"status": "sent", "number": 9}]
    logged = "".join(stack.tail(name) for name in ("worker", "worker-2", "beat"))
    assert not any(word in logged for word in (secret, "s3cret-path", "letter-secret"))
    assert "s3cret-path" not in json.dumps(stack.rows("SELECT * FROM dbops_auditentry"), default=str)
