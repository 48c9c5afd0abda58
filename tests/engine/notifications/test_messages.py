"""Messages: names of other systems are no markup in them."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from dbops.engine.notifications import webhooks
from dbops.engine.notifications.events import EVENTS, EventSeverity, EventState
from dbops.engine.notifications.messages import NAMED, Reported, message_of, payload_of, plain

NOW = datetime(2026, 7, 1, 10, 0, tzinfo=UTC)
HOSTILE = (
    "x\r\nBcc: a@evil.org\n<!channel> @everyone [a](https://evil.org) *b* `c` <script>|#~\\{}\u202e\u2028\x00\x1b[31m$&"
)


def reported(number: int = 1, **values: Any) -> Reported:
    given: dict[str, Any] = {
        "kind": EVENTS["backup.missed"],
        "state": EventState.OPEN,
        "cluster": "shop",
        "subject": "backup-1",
        "detail": "Schedule nightly, run 7",
        "url": "https://dbops.example.org/backups/runs/7/",
        "opened_at": NOW,
        "resolved_at": None,
    }
    return Reported(number=number, **(given | values))


def test_plain_leaves_no_sign_of_markup() -> None:
    found = plain(HOSTILE)
    assert not set(found) & set("\r\n<>@[]*`|#~\\{}/:!&$\u202e\u2028\x00\x1b")
    assert plain("replica-1.b_2 (東京)") == "replica-1.b_2 (東京)"
    assert len(plain("x" * 5000)) == 200


def test_message_of_a_hostile_event_has_its_own_lines_only() -> None:
    message = message_of([reported(subject=HOSTILE, detail=HOSTILE, cluster=HOSTILE)])
    assert len(message.title.splitlines()) == 1
    assert len(message.text.splitlines()) == 3
    without_url = message.text.replace("https://dbops.example.org/backups/runs/7/", "")
    assert not set(message.title + without_url) & set("<>@[]*`|")


def test_begin_and_end_of_a_state_share_the_incident() -> None:
    begin = message_of([reported()])
    end = message_of([reported(state=EventState.RESOLVED, resolved_at=NOW + timedelta(hours=1))])
    assert begin.incident == end.incident != ""
    assert (begin.state, end.state) == (EventState.OPEN, EventState.RESOLVED)
    assert message_of([reported(2)]).incident != begin.incident


def test_digest_has_the_worst_severity_and_a_limit() -> None:
    many = [reported(number, kind=EVENTS["rebuild.done"]) for number in range(NAMED + 5)]
    message = message_of([*many, reported(99)])
    assert (message.severity, message.incident) == (EventSeverity.CRITICAL, "")
    assert len(message.text.splitlines()) == NAMED + 1


def test_payload_has_the_documented_fields() -> None:
    one = payload_of([reported()], NOW, seconds={"short": 5})
    assert (one["type"], one["timestamp"]) == ("backup.missed", "2026-07-01T10:00:00Z")
    assert one["data"] == {
        "event": "backup.missed",
        "id": 1,
        "state": "open",
        "severity": "critical",
        "title": "Backup missed",
        "cluster": "shop",
        "subject": "backup-1",
        "detail": "Schedule nightly, run 7",
        "opened_at": "2026-07-01T10:00:00Z",
        "resolved_at": None,
        "url": "https://dbops.example.org/backups/runs/7/",
        "seconds": {"short": 5},
    }
    both = payload_of([reported(), reported(2)], NOW)
    assert (both["type"], [event["id"] for event in both["data"]["events"]]) == ("digest", [1, 2])


def test_signature_is_verified_by_another_implementation() -> None:
    new, old = webhooks.make_secret(b"n" * 32), webhooks.make_secret(b"o" * 32)
    at, body = datetime.now(UTC), b'{"type": "test"}'
    headers = webhooks.headers("msg_1", at, body, [new, old])
    for secret in (new, old):
        assert Webhook(secret).verify(body, headers) == {"type": "test"}
    for secret, data in ((webhooks.make_secret(b"x" * 32), body), (new, body + b" ")):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(data, headers)


@pytest.mark.parametrize("length", [24, 32, 64])
def test_secret_of_the_standards_length_is_taken(length: int) -> None:
    webhooks.check_secret("whsec_" + base64.b64encode(b"s" * length).decode())


@pytest.mark.parametrize("secret", ["whsec_", "whsec_%%%", "whsec_c2hvcnQ=", "c3M=" * 10, "whsec_" + "c3Nz" * 30])
def test_other_secret_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="secret"):
        webhooks.check_secret(secret)


def test_event_names_are_stable() -> None:
    """Webhooks and rules of other people have these names: add names, and change none."""
    assert list(EVENTS) == [
        *("rebuild.needs_approval", "rebuild.waiting", "rebuild.done", "rebuild.failed", "rebuild.lost"),
        *("source.stopped", "cluster.blocked", "cluster.short", "cluster.unprotected"),
        *("backup.missed", "backup.failed", "backup.small", "restore_test.failed", "restore_test.old"),
        *("capacity.limit", "certificate.ending", "dashboard.process_silent", "dashboard.ticks_late", "report.weekly"),
    ]
