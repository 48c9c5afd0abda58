"""The pages of notifications: for superusers, without secrets, and each change is in the audit log."""

from datetime import time, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dbops.database import clock
from dbops.engine.notifications.events import EVENTS
from dbops.models import AuditEntry, NotificationChannel, NotificationDelivery, NotificationRule
from tests.app.factories import make_cluster, make_operator

from . import rows

pytestmark = pytest.mark.django_db
PAGE = "/admin/notifications/"
SECRET = "https://127.0.0.1:9/in/s3cret-path"


@pytest.fixture
def root(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    return client


def everything() -> str:
    """Return all rows that must have no secret, as text."""
    found = [*AuditEntry.objects.values(), *NotificationDelivery.objects.values()]
    return str([*found, *NotificationChannel.objects.values("name", "shown", "error")])


def channel_form(**values: Any) -> dict[str, Any]:
    return {"name": "hook", "kind": "webhook", "address": SECRET, **values}


def rule_form(**values: Any) -> dict[str, Any]:
    given = {"name": "night", "channel": "hook", "minimum": "info", "digest": "none", "events": list(EVENTS)}
    return {**given, **values}


@pytest.mark.parametrize(
    "path", ["", "log/", "channels/add/", "rules/add/", "channels/1/remove/", "channels/1/rotate/", "rules/1/remove/"]
)
def test_pages_are_for_superusers(path: str, operator: Client, root: Client) -> None:
    rows.channel(SECRET)
    rows.rule()
    found = NotificationChannel.objects.get().pk
    address = (PAGE + path).replace("/1/", f"/{found if 'channel' in path else NotificationRule.objects.get().pk}/")
    assert operator.get(address).status_code == 403
    assert operator.post(address).status_code in (403, 405)
    answer = root.get(address)
    assert answer.status_code == 200
    assert "s3cret" not in answer.content.decode()


def test_webhook_is_added_and_its_secret_is_shown_once(root: Client) -> None:
    answer = root.post(f"{PAGE}channels/add/", channel_form())
    channel = NotificationChannel.objects.get()
    assert answer.status_code == 200
    assert answer.context["secret"] == channel.secret
    assert channel.secret.startswith("whsec_")
    assert channel.secret not in root.get(PAGE).content.decode()
    entry = AuditEntry.objects.get(action="notification.channel_added")
    assert (entry.actor, entry.subject, entry.detail["address"]) == ("root", "hook", "https://127.0.0.1:9/...")
    assert not any(secret in everything() for secret in (channel.secret, "s3cret"))


def test_stored_secrets_are_encrypted(root: Client) -> None:
    from django.db import connection

    root.post(f"{PAGE}channels/add/", channel_form())
    with connection.cursor() as cursor:
        cursor.execute("SELECT address, secret FROM dbops_notificationchannel")
        stored = str(cursor.fetchall())
    assert "s3cret" not in stored
    assert "whsec" not in stored


@pytest.mark.parametrize(
    "values",
    [
        {"address": "http://10.0.0.1/"},
        {"address": "https://10.0.0.1/"},
        {"address": "file:///etc/passwd", "kind": "message"},
        {"address": "slack://a/b/c?verify=no", "kind": "message"},
        {"secret": "short"},
        {"secret": "whsec_" + "c3Nz" * 10, "kind": "heartbeat", "every_minutes": 5},
        {"kind": "heartbeat"},
        {"kind": "heartbeat", "every_minutes": 2000},
        {"every_minutes": 5},
        {"ca": "no certificate"},
        {"kind": "other"},
        {"name": ""},
    ],
)
def test_wrong_channel_is_refused(root: Client, values: dict[str, Any]) -> None:
    answer = root.post(f"{PAGE}channels/add/", channel_form(**values))
    assert (answer.status_code, NotificationChannel.objects.count()) == (422, 0)
    assert "s3cret" not in answer.content.decode()


def test_second_channel_and_rule_of_a_name_are_refused(root: Client) -> None:
    for _ in range(2):
        last = root.post(f"{PAGE}channels/add/", channel_form())
    assert (last.status_code, last.context["form"].has_error("__all__", "notification.channel_invalid")) == (422, True)
    for _ in range(2):
        last = root.post(f"{PAGE}rules/add/", rule_form())
    assert (last.status_code, last.context["form"].has_error("__all__", "notification.rule_invalid")) == (422, True)
    assert (NotificationChannel.objects.count(), NotificationRule.objects.count()) == (1, 1)


def test_rule_is_added_and_removed(root: Client) -> None:
    make_cluster("shop")
    rows.channel(SECRET)
    values = {"cluster": "shop", "quiet_from": "22:00", "quiet_until": "07:00", "digest": "daily", "minimum": "warning"}
    assert root.post(f"{PAGE}rules/add/", rule_form(**values, events=["backup.missed"])).status_code == 302
    rule = NotificationRule.objects.get()
    assert (rule.events, rule.quiet_from, rule.quiet_until, rule.digest, rule.minimum) == (
        ["backup.missed"],
        time(22),
        time(7),
        "daily",
        "warning",
    )
    assert root.get(PAGE).context["rules"][0].rule == rule
    assert root.post(f"{PAGE}rules/{rule.pk}/remove/").status_code == 302
    assert not NotificationRule.objects.exists()
    assert list(AuditEntry.objects.filter(subject="night").order_by("sequence").values_list("action", flat=True)) == [
        "notification.rule_added",
        "notification.rule_removed",
    ]


@pytest.mark.parametrize(
    "values",
    [
        {"events": []},
        {"events": ["backup.unknown"]},
        {"channel": "other"},
        {"channel": "beat"},
        {"cluster": "other"},
        {"quiet_from": "22:00"},
        {"quiet_from": "25:00", "quiet_until": "07:00"},
        {"digest": "weekly"},
        {"minimum": "high"},
    ],
)
def test_wrong_rule_is_refused(root: Client, values: dict[str, Any]) -> None:
    rows.channel(SECRET)
    rows.channel(SECRET, "beat", kind="heartbeat", every_minutes=5)
    answer = root.post(f"{PAGE}rules/add/", rule_form(**values))
    assert (answer.status_code, NotificationRule.objects.count()) == (422, 0)


def test_test_button_queues_a_test(root: Client) -> None:
    channel = rows.channel(SECRET)
    for _ in range(2):
        assert root.post(f"{PAGE}channels/{channel.pk}/test/").status_code == 302
    assert NotificationDelivery.objects.filter(rule=None, status="waiting").count() == 2
    assert root.get(PAGE).context["channels"][0].test.status == "waiting"
    assert AuditEntry.objects.filter(action="notification.channel_tested").count() == 2


def test_secret_is_rotated(root: Client) -> None:
    channel = rows.channel(SECRET)
    before = channel.secret
    answer = root.post(f"{PAGE}channels/{channel.pk}/rotate/")
    now = rows.fresh(channel)
    assert (answer.context["secret"], now.old_secret, now.secret != before) == (now.secret, before, True)
    assert now.secret not in everything()
    other = rows.channel(SECRET, "beat", kind="heartbeat", every_minutes=5)
    assert root.post(f"{PAGE}channels/{other.pk}/rotate/").status_code == 409


def test_removed_channel_takes_its_rules_along(root: Client) -> None:
    channel = rows.channel(SECRET)
    rows.due_event(rows.rule())
    assert root.post(f"{PAGE}channels/{channel.pk}/remove/").status_code == 302
    assert not NotificationRule.objects.exists()
    assert not NotificationDelivery.objects.exists()
    entry = AuditEntry.objects.get(action="notification.channel_removed")
    assert entry.detail == {"address": "https://127.0.0.1:9/...", "rules": ["all"]}


def test_log_is_filtered_and_paged(root: Client, django_assert_max_num_queries: Any) -> None:
    rows.channel(SECRET)
    rows.channel(SECRET, "other")
    wanted, other = rows.rule(), rows.rule("other", "other")
    for _ in range(60):
        rows.due_event(wanted)
    rows.due_event(other, status="failed", error={"cause": "no connection"})
    with django_assert_max_num_queries(12):
        assert len(root.get(f"{PAGE}log/").context["page"]) == 50
    assert len(root.get(f"{PAGE}log/?page=2").context["page"]) == 11
    assert [row.channel.name for row in root.get(f"{PAGE}log/?status=failed").context["page"]] == ["other"]
    assert len(root.get(f"{PAGE}log/?channel=other&status=sent").context["page"]) == 0
    assert root.get(f"{PAGE}log/?page=x&status=%00&channel=%27").status_code == 200


def test_hostile_names_are_escaped(root: Client) -> None:
    rows.channel(SECRET, "<script>a\u202e\x1b[31m")
    rows.due_event(rows.rule("<b>r</b>", "<script>a\u202e\x1b[31m"))
    make_operator()
    for path in ("", "log/"):
        text = root.get(PAGE + path).content.decode()
        assert not any(sign in text for sign in ("<script>a", "<b>r", "\u202e", "\x1b"))


def test_state_of_a_channel_is_shown(root: Client) -> None:
    channel = rows.channel(SECRET)
    assert root.get(PAGE).context["channels"][0].state == "current"
    rows.due_event(rows.rule(), due_at=clock.now() + timedelta(hours=1))
    assert root.get(PAGE).context["channels"][0].state == "current"
    NotificationDelivery.objects.update(due_at=clock.now())
    assert root.get(PAGE).context["channels"][0].state == "waiting"
    error = {"code": "notification.withheld", "cause": "x", "next_step": "y"}
    NotificationChannel.objects.filter(pk=channel.pk).update(error=error, failed_at=clock.now())
    assert root.get(PAGE).context["channels"][0].state == "withheld"
