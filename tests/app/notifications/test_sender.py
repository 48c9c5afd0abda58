"""Sending: real receivers get each message once, whatever they answer, and none of them delays another one."""

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from dbops.database import clock
from dbops.drivers import notifications
from dbops.engine.notifications.channels import ChannelKind
from dbops.lifecycle import notification_deliveries
from dbops.models import (
    NotificationChannel,
    NotificationDelivery,
    NotificationEvent,
    NotificationWatch,
    ProcessHeartbeat,
)
from dbops.operations.notification_channels import add_channel, rotate_secret, test_channel
from dbops.worker import tasks
from dbops.worker.notification_sender import send_due
from tests.app.audit.receivers import bad_receiver

from . import rows
from .conftest import Clock
from .receivers import HttpReceiver, MailReceiver
from .rows import fresh, retry, send

test_channel.__test__ = False  # type: ignore[attr-defined]
pytestmark = pytest.mark.django_db


def statuses() -> list[str]:
    return list(NotificationDelivery.objects.order_by("pk").values_list("status", flat=True))


def bodies(server: HttpReceiver) -> list[dict[str, Any]]:
    return [json.loads(body) for *_, body in server.seen]


def test_webhook_is_signed_for_another_implementation(https: HttpReceiver, ca: tuple[str, Path]) -> None:
    channel, secret = add_channel(actor="root", name="hook", kind="webhook", address=https.address, ca=ca[0])
    rows.due_event(rows.rule())
    assert send() == 1
    [(method, path, headers, body)] = https.seen
    assert (method, path, headers["content-type"]) == ("POST", "/in/s3cret-path", "application/json")
    found = Webhook(secret).verify(body, headers)
    assert (found["type"], found["data"]["state"], found["data"]["url"]) == (
        "backup.missed",
        "open",
        "https://dbops.example.org/rebuilds/",
    )
    assert statuses() == ["sent"]
    assert fresh(channel).sent_count == 1


def test_rotated_secret_signs_with_both_for_a_day(http: HttpReceiver) -> None:
    channel, old = add_channel(actor="root", name="hook", kind="webhook", address=http.address)
    wanted = rows.rule()
    new, until = rotate_secret(actor="root", name="hook")
    rows.due_event(wanted)
    send()
    NotificationChannel.objects.update(old_secret_until=clock.now() - timedelta(seconds=1))
    rows.due_event(wanted)
    send()
    (*_, first, body), (*_, second, later) = http.seen
    for secret, data, headers in ((new, body, first), (old, body, first), (new, later, second)):
        assert Webhook(secret).verify(data, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(old).verify(later, second)
    assert timedelta(hours=23) < until - clock.now() <= timedelta(hours=24)
    assert fresh(channel).secret == new


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_later_attempt_has_the_same_id(http: HttpReceiver, status: int) -> None:
    channel = rows.channel(http.address)
    rows.due_event(rows.rule())
    http.statuses = [status] * 4
    assert send() == 0
    failed = fresh(channel)
    assert (failed.error["code"], failed.failures) == ("notification.unavailable", 1)
    assert send() == 0  # it waits
    assert len(http.seen) == 1
    for _ in range(3):
        retry()
    assert fresh(channel).failures == 4
    assert retry() == 1
    sent = fresh(channel)
    assert (sent.error, sent.failures, statuses(), NotificationDelivery.objects.get().attempts) == ({}, 0, ["sent"], 5)
    assert len({headers["webhook-id"] for _, _, headers, _ in http.seen}) == 1
    assert len(http.seen) == 5


@pytest.mark.parametrize("status", [400, 401, 404, 302, 307])
def test_refused_message_is_given_up_and_the_next_one_is_sent(http: HttpReceiver, status: int) -> None:
    channel, wanted = rows.channel(http.address), rows.rule()
    rows.due_event(wanted)
    rows.due_event(wanted, "backup.failed")
    http.statuses = [status] * 3
    for _ in range(3):
        retry()
    assert (statuses(), fresh(channel).failed_count) == (["failed", "waiting"], 1)
    assert NotificationDelivery.objects.order_by("pk")[0].error["code"] == "notification.rejected"
    assert retry() == 1
    assert [one["type"] for one in bodies(http)] == ["backup.missed"] * 3 + ["backup.failed"]
    assert {path for _, path, *_ in http.seen} == {"/in/s3cret-path"}  # no redirect is followed


def test_message_is_given_up_after_a_day(moment: Clock) -> None:
    channel = rows.channel("http://127.0.0.1:1/")
    rows.due_event(rows.rule())
    send()
    moment.now += timedelta(hours=23)
    send()
    assert statuses() == ["waiting"]
    moment.now += timedelta(hours=1)
    send()
    assert (statuses(), fresh(channel).failed_count) == (["failed"], 1)


@pytest.mark.parametrize("kind", ["silent", "deaf", "resets", "drips"])
def test_channel_that_hangs_delays_no_other(http: HttpReceiver, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "SECONDS", 4)
    with bad_receiver(kind) as port:
        bad, good = rows.channel(f"http://127.0.0.1:{port}/", "bad"), rows.channel(http.address, "good")
        first, second = rows.rule("first", "bad"), rows.rule("second", "good")
        for wanted in (first, second):
            rows.due_event(wanted)
        rows.due_event(second, "backup.failed")
        began = time.monotonic()
        assert send() == 2
        assert time.monotonic() - began < 40
    assert fresh(bad).error["code"] == "notification.unavailable"
    assert (fresh(good).sent_count, fresh(bad).lease_until) == (2, None)
    # while it waits, it does not even use the worker
    assert list(notification_deliveries.due(clock.now())) == []


@pytest.mark.parametrize("scheme", ["https", "mailto"])
def test_name_of_a_private_address_gets_no_connection(
    scheme: str, https: HttpReceiver, letters: MailReceiver, ca: tuple[str, Path], settings: Any
) -> None:
    """The name was fine when it was entered: the address is looked at right before the connection."""
    settings.NOTIFICATION_NETWORKS = []
    if scheme == "https":
        rows.channel(https.address.replace("127.0.0.1", "localhost"), ca=ca[0])
    else:
        rows.channel(letters.address().replace("127.0.0.1", "localhost"), kind="message")
    rows.due_event(rows.rule())
    assert send() == 0
    assert NotificationChannel.objects.get().error["code"] == "notification.address"
    assert (https.seen, letters.taken) == ([], [])


def test_certificate_of_another_authority_gets_nothing(https: HttpReceiver) -> None:
    rows.channel(https.address)
    rows.due_event(rows.rule())
    send()
    assert (NotificationChannel.objects.get().error["code"], https.seen) == ("notification.certificate", [])


@pytest.mark.parametrize(
    ("status", "code"), [(200, None), (302, "notification.rejected"), (503, "notification.unavailable")]
)
def test_service_of_apprise_gets_one_request(
    https: HttpReceiver, ca: tuple[str, Path], status: int, code: str | None
) -> None:
    """Apprise would follow redirects, and trust what ``verify=no`` says."""
    place = https.address.removeprefix("https://").partition("/")[0]
    rows.channel(f"mmosts://{place}/t0ken-t0ken-t0ken-t0ken", kind="message", ca=ca[0])
    rows.due_event(rows.rule())
    https.statuses = [status]
    assert send() == int(code is None)
    [(method, path, _, body)] = https.seen
    assert (method, path) == ("POST", "/hooks/t0ken-t0ken-t0ken-t0ken")
    assert "backup-1" in json.loads(body)["text"]
    assert NotificationChannel.objects.get().error.get("code") == code


def test_mail_is_one_message_to_all_recipients(letters: MailReceiver) -> None:
    rows.channel(letters.address(), kind="message")
    rows.due_event(rows.rule())
    hostile = "x\r\nBcc: a@evil.org\n<b>@everyone</b> [a](https://evil.org)"
    NotificationEvent.objects.update(subject=hostile, cluster=hostile[:60], detail=hostile)
    assert send() == 1
    [envelope] = letters.taken
    assert (envelope.mail_from, sorted(envelope.rcpt_tos)) == (
        "dbops@example.org",
        ["boss@example.org", "dba@example.org"],
    )
    assert isinstance(envelope.content, bytes)
    head = envelope.content.partition(b"\r\n\r\n")[0]
    assert b"\nBcc:" not in head
    assert b"https://dbops.example.org/rebuilds/" in envelope.content
    assert not any(word in envelope.content for word in (b"https://evil", b"@everyone", b"<b>"))


def test_mail_server_that_refuses(letters: MailReceiver, caplog: pytest.LogCaptureFixture) -> None:
    channel = rows.channel(letters.address("wr0ng-secret"), kind="message")
    rows.due_event(rows.rule())
    send()
    assert fresh(channel).error["code"] == "notification.rejected"
    NotificationChannel.objects.all().delete()
    channel = rows.channel(letters.address(), kind="message")
    rows.due_event(rows.rule())
    letters.answers = ["452 no room for secret-account"]
    send()
    assert fresh(channel).error["code"] == "notification.unavailable"
    assert retry() == 1
    seen = caplog.text + str(list(NotificationDelivery.objects.values())) + str(fresh(channel).error)
    assert not any(word in seen for word in ("wr0ng-secret", "letter-secret", "secret-account"))


def test_redelivered_task_sends_nothing_twice(http: HttpReceiver) -> None:
    rows.channel(http.address)
    rows.due_event(rows.rule())
    for _ in range(3):
        tasks.send_notifications()
    assert len(http.seen) == 1


def test_leased_channel_is_left_to_its_worker(http: HttpReceiver) -> None:
    channel = rows.channel(http.address)
    rows.due_event(rows.rule())
    busy = notification_deliveries.claim(channel.pk)
    assert busy is not None
    assert (send(), notification_deliveries.claim(channel.pk)) == (0, None)
    batch = notification_deliveries.next_batch(busy)
    NotificationChannel.objects.update(lease_until=clock.now() - timedelta(seconds=1))
    assert send() == 1
    # the slow one comes back
    assert not notification_deliveries.mark_sent(busy, batch)
    notification_deliveries.mark_failed(busy, batch, notifications.Unreachable("notification.unavailable", "Late"))
    assert (statuses(), len(http.seen), http.seen[0][2]["webhook-id"]) == (["sent"], 1, batch[0].message)
    assert (fresh(channel).error, fresh(channel).sent_count) == ({}, 1)


def test_held_events_become_one_digest(http: HttpReceiver) -> None:
    rows.channel(http.address)
    wanted, soon = rows.rule(), clock.now() + timedelta(hours=1)
    for kind in ("backup.failed", "cluster.short", "rebuild.done"):
        rows.due_event(wanted, kind, is_held=True, due_at=soon)
    rows.due_event(wanted, "backup.missed")
    assert send() == 1
    NotificationDelivery.objects.filter(is_held=True).update(due_at=clock.now())
    assert send() == 1
    one, digest = bodies(http)
    assert (one["type"], digest["type"]) == ("backup.missed", "digest")
    assert [event["event"] for event in digest["data"]["events"]] == ["backup.failed", "cluster.short", "rebuild.done"]


def test_retried_digest_has_the_same_events(http: HttpReceiver) -> None:
    rows.channel(http.address)
    wanted = rows.rule()
    for _ in range(2):
        rows.due_event(wanted, is_held=True)
    http.statuses = [500]
    send()
    rows.due_event(wanted, is_held=True)
    assert retry() == 2
    assert [len(one["data"].get("events", [1])) for one in bodies(http)] == [2, 2, 1]


def test_many_events_at_once_are_one_message(http: HttpReceiver) -> None:
    rows.channel(http.address)
    wanted = rows.rule()
    for _ in range(30):
        rows.due_event(wanted)
    assert send() == 1
    assert len(bodies(http)[0]["data"]["events"]) == 30


def test_events_keep_their_order(http: HttpReceiver) -> None:
    rows.channel(http.address)
    wanted = rows.rule()
    for kind in ("backup.missed", "backup.failed", "backup.small"):
        rows.due_event(wanted, kind)
    http.statuses = [500]
    send()
    retry()
    assert [one["type"] for one in bodies(http)] == ["backup.missed", "backup.missed", "backup.failed", "backup.small"]


def well() -> None:
    for name in ("worker", "beat"):
        ProcessHeartbeat.objects.update_or_create(name=name, defaults={"at": clock.now()})
    NotificationWatch.objects.update_or_create(pk=1, defaults={"since": clock.now(), "looked_at": clock.now()})


def test_heartbeat_is_sent_while_dbops_is_well(http: HttpReceiver, moment: Clock) -> None:
    well()
    channel = rows.channel(http.address, kind=ChannelKind.HEARTBEAT, every_minutes=5)
    assert (send(), send()) == (1, 0)
    moment.now += timedelta(minutes=5)
    well()
    assert send() == 1
    assert [method for method, *_ in http.seen] == ["GET", "GET"]
    assert fresh(channel).sent_count == 2
    assert not NotificationDelivery.objects.exists()


@pytest.mark.parametrize("what", ["worker", "beat", "watch", "event", "missing"])
def test_heartbeat_is_withheld_while_dbops_is_unwell(http: HttpReceiver, moment: Clock, what: str) -> None:
    well()
    channel = rows.channel(http.address, kind=ChannelKind.HEARTBEAT, every_minutes=5)
    long_ago = moment.now - timedelta(minutes=10)
    if what == "watch":
        NotificationWatch.objects.update(looked_at=long_ago)
    elif what == "event":
        given = {"kind": "dashboard.ticks_late", "subject": "ticks", "routed": "open"}
        NotificationEvent.objects.create(opened_at=long_ago, reported_from=long_ago, **given)
    elif what == "missing":
        ProcessHeartbeat.objects.filter(name="beat").delete()
    else:
        ProcessHeartbeat.objects.filter(name=what).update(at=long_ago)
    assert send() == 0
    assert (http.seen, fresh(channel).error["code"]) == ([], "notification.withheld")
    moment.now += timedelta(seconds=31)
    well()
    NotificationEvent.objects.all().delete()
    assert (send(), fresh(channel).error) == (1, {})


@pytest.mark.parametrize("kind", ChannelKind)
def test_test_is_sent_before_what_waits(http: HttpReceiver, letters: MailReceiver, kind: ChannelKind) -> None:
    address = letters.address() if kind is ChannelKind.MESSAGE else http.address
    more = {"every_minutes": 5} if kind is ChannelKind.HEARTBEAT else {}
    channel = rows.channel(address, kind=kind, **more)
    if kind is not ChannelKind.HEARTBEAT:
        rows.due_event(rows.rule())
    NotificationChannel.objects.update(next_try_at=clock.now() + timedelta(hours=1), failures=9)
    test = test_channel(actor="root", name=channel.name)
    assert send_due(seconds=0) == 1
    assert fresh(test).status == "sent"
    assert len(http.seen) + len(letters.taken) == 1


def test_failed_test_is_not_repeated(http: HttpReceiver) -> None:
    rows.channel(http.address)
    http.statuses = [500]
    test = test_channel(actor="root", name="hook")
    send()
    retry()
    assert (fresh(test).status, fresh(test).error["code"], len(http.seen)) == ("failed", "notification.unavailable", 1)


def test_lost_key_is_an_error_of_its_channel(http: HttpReceiver, settings: Any) -> None:
    good_keys = settings.ENCRYPTION_KEYS
    rows.channel(http.address, "lost")
    rows.due_event(rows.rule("first", "lost"))
    settings.ENCRYPTION_KEYS = ["cnNsc2Zqc2xma2pzZGxma2pzZGxmanNkbGZranNkbGY="]
    rows.channel(http.address, "good")
    rows.due_event(rows.rule("second", "good"))
    assert send() == 1
    found = dict(NotificationChannel.objects.defer("address", "secret").values_list("name", "error"))
    assert (found["lost"]["code"], found["good"], good_keys != settings.ENCRYPTION_KEYS) == ("secret.lost", {}, True)
