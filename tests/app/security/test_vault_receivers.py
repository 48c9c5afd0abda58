"""Secrets in Vault of channels, sinks, sources and discoveries. A Vault that is away loses no message and no entry."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from standardwebhooks import Webhook

from dbops.engine.errors import Refused
from dbops.models import AuditEntry, AuditSink, Discovery, InventorySource, NotificationChannel, NotificationDelivery
from dbops.models.secret import as_stored, vault_path
from dbops.operations.audit_sinks import add_sink, test_sink
from dbops.operations.inventory_sources import add_source
from dbops.operations.notification_channels import rotate_secret, test_channel
from dbops.operations.topology import request_discovery
from dbops.queries.audit.sinks import sinks
from dbops.security.vault_paths import VaultPath
from dbops.security.vault_settings import VaultSettings
from dbops.worker.discovery import run_discovery
from dbops.worker.notification_sender import send_due
from tests.app.audit.receivers import make_certificates, running_https
from tests.app.audit.test_sinks import retry, send
from tests.app.inventory_sources.test_reading import CSV, read
from tests.app.notifications import rows
from tests.app.notifications.receivers import HttpReceiver, running_http
from tests.inventory_servers import running_source
from tests.vault_server import OpenBao

test_channel.__test__ = test_sink.__test__ = False  # type: ignore[attr-defined]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker", "bao")]
SIGNING = "whsec_" + "c3Nz" * 10
CHANNELS, SINKS = "/admin/notifications/channels/add/", "/admin/audit-sinks/"
HOOK = {"name": "hook", "kind": "webhook"}
FORMS: list[tuple[str, dict[str, Any], str, type[Any]]] = [
    (CHANNELS, HOOK, "address", NotificationChannel),
    (SINKS, {"name": "siem", "address": "https://siem.corp/in"}, "token", AuditSink),
    (
        "/inventory/sources/add/",
        {"name": "cmdb", "kind": "csv", "address": "https://cmdb.corp/x", "every_minutes": 60},
        "secret",
        InventorySource,
    ),
    ("/discoveries/", {"address": "127.0.0.1", "port": 1, "user": "dbops"}, "password", Discovery),
]


@pytest.fixture(autouse=True)
def _loopback(settings: Any) -> None:
    settings.NOTIFICATION_NETWORKS = ["127.0.0.0/8"]


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    return client


@pytest.fixture
def http() -> Iterator[HttpReceiver]:
    with running_http() as server:
        yield server


def away(bao: OpenBao) -> VaultSettings:
    """Return settings with which this process has read nothing, and no Vault answers."""
    return VaultSettings(address="https://127.0.0.1:9", token_file=bao.token_file(), timeout_seconds=1)


def statuses() -> list[str]:
    return list(NotificationDelivery.objects.order_by("pk").values_list("status", flat=True))


class TestForms:
    @pytest.mark.parametrize(("url", "given", "secret", "model"), FORMS)
    def test_a_path_is_stored_and_in_the_audit_log_without_asking_vault(
        self, root: Client, url: str, given: dict[str, Any], secret: str, model: type[Any]
    ) -> None:
        answer = root.post(url, given | {f"{secret}_vault": "some/where#field"})
        assert answer.status_code in (200, 302)
        [stored] = model.objects.annotate(raw=as_stored(secret)).values_list("raw", flat=True)
        assert stored == "vault:some/where#field"
        assert AuditEntry.objects.order_by("-pk")[0].detail[secret] == "vault:some/where#field"
        [found] = root.get("/admin/credentials/vault/").context["secrets"]
        assert (found.column, found.path) == (secret, "some/where#field")

    @pytest.mark.parametrize(("url", "given", "secret", "model"), FORMS)
    def test_what_is_wrong_is_refused(
        self, root: Client, url: str, given: dict[str, Any], secret: str, model: type[Any]
    ) -> None:
        cases: list[dict[str, str]] = [{f"{secret}_vault": "../etc#x"}, {secret: "s3cret", f"{secret}_vault": "a#b"}]
        for case in cases:
            answer = root.post(url, given | case)
            assert (answer.status_code, list(answer.context["form"].errors)) == (422, [f"{secret}_vault"])
        assert not model.objects.exists()

    @pytest.mark.parametrize(("url", "given", "secret", "model"), FORMS)
    def test_without_vault_there_is_no_field(
        self, root: Client, url: str, given: dict[str, Any], secret: str, model: type[Any], settings: Any
    ) -> None:
        settings.VAULT = VaultSettings()
        root.post(url, given | {f"{secret}_vault": "some/where#field"})
        assert f'name="{secret}_vault"' not in root.get(url).content.decode()
        assert not any(vault_path(row, secret) for row in model.objects.all())

    def test_an_address_or_its_path_is_needed(self, root: Client) -> None:
        answer = root.post(CHANNELS, HOOK)
        assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["address"])

    def test_a_token_in_vault_needs_https(self, root: Client) -> None:
        for url, address, secret in ((SINKS, "syslog+tls://siem:6514", "token"), (FORMS[2][0], "http://c/", "secret")):
            answer = root.post(url, dict(FORMS[1][1]) | FORMS[2][1] | {"address": address, f"{secret}_vault": "a#b"})
            assert answer.status_code == 422


class TestChannels:
    def test_messages_wait_for_vault_and_are_sent_once(
        self, http: HttpReceiver, bao: OpenBao, root: Client, settings: Any
    ) -> None:
        bao.write("channels/hook", url=http.address, signing=SIGNING)
        channel = rows.channel(
            VaultPath("channels/hook#url"), kind="webhook", secret=VaultPath("channels/hook#signing")
        )
        rows.due_event(rows.rule())
        there, settings.VAULT = settings.VAULT, away(bao)
        assert send_due(seconds=30) == 0
        failed = rows.fresh(channel)
        assert (failed.error["code"], statuses()) == ("vault.unreachable", ["waiting"])
        settings.VAULT = there
        assert (rows.retry(), rows.retry(), statuses()) == (1, 0, ["sent"])
        [(_, _, headers, body)] = http.seen
        assert Webhook(SIGNING).verify(body, headers)
        for page in ("/admin/notifications/", "/admin/credentials/"):
            text = root.get(page).content.decode()
            assert "channels/hook#url" in text
            assert not any(one in text for one in ("s3cret", SIGNING))

    def test_a_test_says_what_vault_lacks(self, bao: OpenBao) -> None:
        rows.channel(VaultPath("channels/nowhere#url"))
        test = test_channel(actor="root", name="hook")
        send_due(seconds=30)
        assert (rows.fresh(test).status, rows.fresh(test).error["code"]) == ("failed", "vault.missing")

    @pytest.mark.parametrize(
        ("address", "signing"),
        [("http://10.0.0.1/", SIGNING), ("https://user@h/", SIGNING), ("", "whsec_short"), ("", "é")],
    )
    def test_what_is_not_allowed_is_not_sent_to_and_stops_no_other_channel(
        self, http: HttpReceiver, bao: OpenBao, address: str, signing: str
    ) -> None:
        bao.write("channels/hook", url=address or http.address, signing=signing)
        bad = rows.channel(VaultPath("channels/hook#url"), secret=VaultPath("channels/hook#signing"))
        rows.channel(http.address, "good")
        for name in ("hook", "good"):
            rows.due_event(rows.rule(name, name))
        assert (send_due(seconds=30), statuses()) == (1, ["waiting", "sent"])
        assert rows.fresh(bad).error["code"] == "vault.bad_value"
        assert len(http.seen) == 1

    def test_a_signing_secret_in_vault_is_not_rotated_here(self, http: HttpReceiver, root: Client) -> None:
        channel = rows.channel(http.address, secret=VaultPath("channels/hook#signing"))
        added = AuditEntry.objects.get(action="notification.channel_added")
        assert added.detail["secret"] == "vault:channels/hook#signing"
        with pytest.raises(Refused) as caught:
            rotate_secret(actor="root", name="hook")
        assert caught.value.code == "notification.channel_invalid"
        assert vault_path(rows.fresh(channel), "secret") == "channels/hook#signing"
        url = f"/admin/notifications/channels/{channel.pk}/rotate/"
        assert url not in root.get("/admin/notifications/").content.decode()
        assert root.post(url).status_code == 409


def test_a_sink_waits_for_vault_and_gets_every_entry(tmp_path: Path, bao: OpenBao, settings: Any) -> None:
    bao.write("siem", token="t0ken")
    ca = make_certificates(tmp_path)
    with running_https(tmp_path) as server:
        sink = add_sink(actor="root", name="siem", address=server.address, ca=ca, token=VaultPath("siem#token"))
        there, settings.VAULT = settings.VAULT, away(bao)
        assert sinks()[0].token_path == "siem#token"
        failed = send(sink)
        assert (failed.error["code"], failed.sent_sequence) == ("vault.unreachable", sink.sent_sequence)
        settings.VAULT = there
        entry = test_sink(actor="root", name="siem")
        assert (retry(sink).sent_sequence, retry(sink).error) == (entry.sequence, {})
        assert [item["sequence"] for item in server.entries] == [sink.sent_sequence + 1, entry.sequence]
        assert {token for _, token, _ in server.seen} == {"Bearer t0ken"}
        bao.write("siem", token="with space")
        settings.VAULT = bao.settings(cache_seconds=1)
        test_sink(actor="root", name="siem")
        assert retry(sink).error["code"] == "vault.bad_value"


def test_a_source_is_read_with_it_and_keeps_its_listing(tmp_path: Path, bao: OpenBao, settings: Any) -> None:
    bao.write("cmdb", token="t0ken")
    ca = make_certificates(tmp_path)
    with running_source(tmp_path) as server:
        server.say("/", CSV)
        values: dict[str, Any] = {"kind": "csv", "address": server.address, "ca": ca}
        source = read(add_source(actor="root", name="cmdb", secret=VaultPath("cmdb#token"), **values))
        assert (server.asked, source.error) == ([("/", "Bearer t0ken")], {})
        settings.VAULT = away(bao)
        failed = read(source)
        assert (failed.error["code"], failed.listing) == ("vault.unreachable", source.listing)


@pytest.mark.parametrize(
    ("path", "code"), [("clusters/shop#admin", "mysql.unreachable"), ("clusters/shop#nothing", "vault.missing")]
)
def test_a_discovery_logs_in_with_it(bao: OpenBao, path: str, code: str) -> None:
    bao.write("clusters/shop", admin="s3cret")
    row = request_discovery(actor="root", address="127.0.0.1", port=1, user="dbops", password=VaultPath(path))
    assert run_discovery(row.pk)
    row.refresh_from_db()
    assert ([node["problem"]["code"] for node in row.result["nodes"]], row.password) == ([code], "")


COMMANDS: list[tuple[list[str], str, type[Any]]] = [
    (["notification", "channel", "add", "hook", "webhook"], "address", NotificationChannel),
    (["audit", "sink", "add", "siem", "https://siem.corp/in"], "token", AuditSink),
    (["inventory", "source", "add", "cmdb", "csv", "https://cmdb.corp/x"], "secret", InventorySource),
    (["discover", "127.0.0.1:1", "--wait-seconds", "0", "--user", "dbops"], "password", Discovery),
]


@pytest.mark.parametrize(("words", "secret", "model"), COMMANDS)
def test_commands_take_a_path(words: list[str], secret: str, model: type[Any], settings: Any) -> None:
    option = f"--{secret}-vault"
    for wrong in (["../etc#x"], ["a#b", f"--{secret}-{'stdin' if secret == 'password' else 'file=x'}"]):
        with pytest.raises(CommandError):
            call_command(*words, option, *wrong)
    there, settings.VAULT = settings.VAULT, VaultSettings()
    with pytest.raises(CommandError):
        call_command(*words, option, "a#b")
    assert not model.objects.exists()
    settings.VAULT = there
    if model is Discovery:
        with pytest.raises(CommandError):  # no worker takes it up here
            call_command(*words, option, "a/b#c")
    else:
        call_command(*words, option, "a/b#c")
    assert vault_path(model.objects.get(), secret) == "a/b#c"
