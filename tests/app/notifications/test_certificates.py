"""Certificates that end: reported once in time, resolved when they are replaced, kept open while Vault is away."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from dbops.database import clock
from dbops.engine.notifications.certificates import ends_soon
from dbops.models import Cluster, Host, NotificationDelivery, NotificationEvent
from dbops.queries.monitoring import metrics
from dbops.queries.notifications.occurrences import CERTIFICATE
from dbops.security.vault_paths import VaultPath
from dbops.security.vault_settings import VaultSettings
from dbops.worker.notification_watch import watch
from tests.app.factories import make_cluster, make_host, make_instance
from tests.vault_server import OpenBao

from . import rows
from .conftest import Clock

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def authority(since: datetime, until: datetime) -> str:
    """Return a CA certificate as PEM."""
    key, name = generate_private_key(SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "CA")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), since, until)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    for name in ("ca", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    return tmp_path / "key"


def sign(key: Path, since: datetime, until: datetime) -> str:
    span = ":".join(f"{one:%Y%m%d%H%M%S}Z" for one in (since, until))
    words = ["ssh-keygen", "-q", "-s", key.with_name("ca"), "-I", "test", "-n", "dbops", "-V", span]
    subprocess.run([*words, key.with_name("key.pub")], check=True, capture_output=True)
    return key.with_name("key-cert.pub").read_text()


@pytest.fixture
def told(moment: Clock) -> Any:
    """Look for events; return what was sent of certificates."""
    rows.channel("https://127.0.0.1:9/in")
    rows.rule(events=[CERTIFICATE])

    def look() -> list[tuple[str, str, str]]:
        assert watch()
        found = NotificationDelivery.objects.order_by("pk")
        return list(found.values_list("event__cluster", "event__subject", "state"))

    return look


@pytest.mark.parametrize(
    ("days", "left", "soon"),
    [
        (365, 14.1, False),
        (365, 14, True),
        (365, -1, True),
        (20, 6, False),
        (20, 5, True),
        (0.5, 0.2, False),
        (0.5, 0.1, True),
    ],
)
def test_short_certificates_are_reported_later(days: float, left: float, soon: bool) -> None:
    now = datetime(2026, 3, 11, tzinfo=UTC)
    until = now + left * DAY
    assert ends_soon(until - days * DAY, until, now, 14 * DAY) is soon
    assert not ends_soon(now, None, now, 14 * DAY)


def test_an_ssh_certificate_is_told_of_once_for_all_its_hosts(key: Path, told: Any, moment: Clock) -> None:
    cluster, now = make_cluster(), moment.now
    for name in ("db-1", "db-2", "db-3"):
        host = make_host(name, ssh_key_file=str(key), ssh_private_key="")
        make_instance(name, cluster=cluster, host=host)
    sign(key, now - 100 * DAY, now + 15 * DAY)
    assert told() == []
    moment.now += 1.1 * DAY
    assert told() == told() == [("shop", "db-1 and 2 more", "open")]
    Host.objects.create(name="a", ssh_address="192.0.2.9", ssh_key_file=str(key))
    moment.now += 20 * DAY
    assert len(told()) == 1, "it has ended, and is still the same event"
    sign(key, moment.now, moment.now + 200 * DAY)
    assert told() == told() == [("shop", "db-1 and 2 more", "open"), ("shop", "db-1 and 2 more", "resolved")]


def test_a_certificate_that_is_renewed_for_too_short_stays_open(key: Path, told: Any, moment: Clock) -> None:
    make_host("db-1", ssh_key_file=str(key), ssh_private_key="")
    sign(key, moment.now - 100 * DAY, moment.now + 5 * DAY)
    assert told() == [("", "db-1", "open")]
    sign(key, moment.now - 100 * DAY, moment.now + 6 * DAY)
    assert told() == [("", "db-1", "open")]


def test_the_first_ca_of_a_cluster_that_ends(told: Any, moment: Clock) -> None:
    now = moment.now
    old, new = authority(now - 900 * DAY, now + 13 * DAY), authority(now - DAY, now + 900 * DAY)
    cluster = make_cluster(tls_ca=old + new)
    make_cluster("bank", tls_ca=new)
    assert told() == told() == [("shop", "shop", "open")]
    assert NotificationEvent.objects.get(kind=CERTIFICATE).path == "/inventory/cluster/shop/"
    found = {one.name: one.samples for one in metrics(clock.now())}["dbops_tls_ca_end_timestamp_seconds"]
    assert [(labels["cluster"], value - now.timestamp()) for labels, value in found] == [
        ("bank", 900 * 86400),
        ("shop", 13 * 86400),
    ]
    Cluster.objects.filter(pk=cluster.pk).update(tls_ca=new)
    assert told() == [("shop", "shop", "open"), ("shop", "shop", "resolved")]


def test_days_are_a_setting(told: Any, moment: Clock, settings: Any) -> None:
    make_cluster(tls_ca=authority(moment.now - 900 * DAY, moment.now + 20 * DAY))
    assert told() == []
    settings.CERTIFICATE_NOTICE_DAYS = 30
    assert told() == [("shop", "shop", "open")]


def test_one_in_vault_stays_open_while_vault_is_away(
    key: Path, told: Any, moment: Clock, bao: OpenBao, settings: Any
) -> None:
    text = sign(key, moment.now - 100 * DAY, moment.now + 5 * DAY)
    bao.write("hosts/db-1", **{"key": key.read_text(), "key-cert.pub": text})
    make_host("db-1", ssh_private_key=VaultPath("hosts/db-1#key"), ssh_key_file="")
    assert told() == [("", "db-1", "open")]
    there = settings.VAULT
    settings.VAULT = VaultSettings(address="https://127.0.0.1:9", token_file=there.token_file, timeout_seconds=1)
    assert told() == [("", "db-1", "open")]
    settings.VAULT = there
    assert told() == [("", "db-1", "open")]
    bao.write("hosts/db-1", **{"key": key.read_text(), "key-cert.pub": sign(key, moment.now, moment.now + 90 * DAY)})
    settings.VAULT = bao.settings(cache_seconds=1)  # a process that keeps nothing yet
    assert told() == [("", "db-1", "open"), ("", "db-1", "resolved")]


def test_a_wrong_path_of_one_host_keeps_no_other_event_open(
    key: Path, told: Any, moment: Clock, bao: OpenBao, settings: Any
) -> None:
    bao.write("hosts/db-2", other="x")
    make_host("db-1", ssh_key_file=str(key), ssh_private_key="")
    for name, path in (("db-2", "hosts/db-2#key"), ("db-3", "hosts/nowhere#key")):
        make_host(name, ssh_private_key=VaultPath(path), ssh_key_file="")
    sign(key, moment.now - 100 * DAY, moment.now + 5 * DAY)
    assert told() == [("", "db-1", "open")]
    sign(key, moment.now, moment.now + 200 * DAY)
    assert told() == [("", "db-1", "open"), ("", "db-1", "resolved")]


def test_a_certificate_that_proves_a_host(told: Any, moment: Clock) -> None:
    now = moment.now
    host, jump, plain, old = (
        make_host(name, certificate_name=f"{name}.example") for name in ("db-1", "jump", "plain", "old")
    )
    Host.objects.filter(pk=host.pk).update(jump_host=jump)
    make_instance("shop-1", cluster=make_cluster(), host=host)

    def seen(**days: float) -> None:
        for one in (host, jump, plain, old):
            until = now + days.get(one.name, 90) * DAY
            Host.objects.filter(pk=one.pk).update(certificate_since=now - 100 * DAY, certificate_until=until)

    assert told() == [], "nothing was seen"
    Host.objects.filter(pk=plain.pk).update(certificate_name="")
    seen(plain=1)
    assert told() == [], "its pinned key proves it"
    seen(**{"db-1": 5, "jump": 3, "old": 2})
    assert told() == told() == [("shop", "db-1", "open"), ("shop", "jump", "open")], "nothing connects to the old one"
    assert set(NotificationEvent.objects.filter(kind=CERTIFICATE).values_list("path", flat=True)) == {
        "/inventory/host/db-1/key/",
        "/inventory/host/jump/key/",
    }
    found = {one.name: one.samples for one in metrics(clock.now())}
    for word, days in (("start", {"db-1": -100, "jump": -100}), ("end", {"db-1": 5, "jump": 3})):
        samples = found[f"dbops_ssh_host_certificate_{word}_timestamp_seconds"]
        assert {one["host"]: (value - now.timestamp()) / 86400 for one, value in samples} == days
    seen(**{"db-1": 5})
    Host.objects.filter(pk=host.pk).update(certificate_name="")
    assert told()[2:] == [("shop", "db-1", "resolved"), ("shop", "jump", "resolved")]


def test_one_that_cannot_be_used_is_a_metric_and_no_event(key: Path, told: Any) -> None:
    key.with_name("key-cert.pub").write_text("nonsense")
    make_host("db-1", ssh_key_file=str(key), ssh_private_key="")
    assert told() == []
    found = {one.name: one.samples for one in metrics(clock.now())}
    names = [f"dbops_ssh_certificate_{one}_timestamp_seconds" for one in ("start", "end")]
    assert [found[name] for name in names] == [[({"host": "db-1"}, 0.0)]] * 2
