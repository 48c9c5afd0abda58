"""The page of credentials: what is set and readable, by whom it was changed, and never a value, a length or a hash."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.test import Client
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.loaders.ssh_addresses import private_key_of
from dbops.models import AuditEntry, Cluster, Host
from dbops.models.secret import as_stored, is_set
from dbops.operations.fleet import save_cluster
from tests.app.factories import make_cluster, make_host, make_instance

pytestmark = pytest.mark.django_db

PASSWORD, KEY = "a password of the shop", "-----BEGIN OPENSSH PRIVATE KEY-----"
OTHER = "another one for it"


def make_fleet(name: str = "shop", **values: Any) -> tuple[Cluster, Host]:
    cluster = make_cluster(name, admin_user="dbops", admin_password=PASSWORD, **values)
    host = make_host(f"host-{name}", ssh_private_key=KEY)
    make_instance(f"{name}-1", cluster=cluster, host=host)
    return cluster, host


def stored_tokens() -> list[str]:
    tokens = [*Cluster.objects.annotate(raw=as_stored("admin_password")).values_list("raw", flat=True)]
    return [*tokens, *Host.objects.annotate(raw=as_stored("ssh_private_key")).values_list("raw", flat=True)]


def states(client: Client, query: str = "") -> Counter[str]:
    """Return how many secrets the page shows in each state."""
    answer = client.get(f"/admin/credentials/{query}")
    shown = Counter(secret.state for owner in answer.context["page"] for secret in owner.secrets)
    text = answer.content.decode()
    assert {state: text.count(f'data-secret="{state}"') for state in shown} == shown
    return shown


def page(client: Client, query: str = "") -> str:
    answer = client.get(f"/admin/credentials/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def changes(client: Client) -> dict[str, str]:
    """Return who changed each secret that is set, as the page shows it."""
    owners = client.get("/admin/credentials/").context["page"]
    secrets = [secret for owner in owners for secret in owner.secrets if secret.state == "stored"]
    return {secret.column: secret.changed_by for secret in secrets}


def change_key(settings: Any, *, keep: bool) -> None:
    new = Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = [new, *settings.ENCRYPTION_KEYS] if keep else [new]


def test_credentials_page_needs_a_superuser(viewer: Client) -> None:
    assert viewer.get("/admin/credentials/").status_code == 403


def test_credentials_page_shows_stored_and_missing_secrets_with_use(operator: Client) -> None:
    make_fleet()
    assert states(operator) == {"stored": 2, "missing": 2}
    owners = list(operator.get("/admin/credentials/").context["page"])
    assert [(owner.kind, owner.name, owner.instances) for owner in owners] == [
        ("cluster", "shop", 1),
        ("host", "host-shop", 1),
    ]
    text = page(operator)
    assert all(escape(secret.used_for) in text for owner in owners for secret in owner.secrets)


def test_credentials_page_contains_no_secret_or_derivative(operator: Client) -> None:
    make_fleet()
    tokens = stored_tokens()
    assert all(token.startswith("gAAAA") for token in tokens)
    text = page(operator)
    for secret in (PASSWORD, KEY):
        assert secret not in text
        for digest in (hashlib.sha256, hashlib.sha1, hashlib.md5):
            assert digest(secret.encode()).hexdigest()[:12] not in text
    assert not [token for token in tokens if token[:20] in text]


def test_credentials_page_works_with_a_lost_key(operator: Client, settings: Any) -> None:
    make_fleet()
    change_key(settings, keep=False)
    assert states(operator) == {"lost": 2, "missing": 2}
    assert 'data-problems="2"' in page(operator)


def test_credentials_page_marks_an_older_key(operator: Client, settings: Any) -> None:
    make_fleet()
    change_key(settings, keep=True)
    assert states(operator) == {"old key": 2, "missing": 2}
    assert "data-problems" not in page(operator)


def test_credentials_page_checks_a_key_file(operator: Client, tmp_path: Path) -> None:
    file = tmp_path / "key"
    make_host("one", ssh_key_file=str(file))
    assert states(operator) == {"no file": 1}
    file.write_text(KEY)
    assert states(operator) == {"file": 1}
    text = page(operator)
    assert str(file) in text
    assert KEY not in text


def test_credentials_page_shows_the_last_change_from_the_audit_log(operator: Client, olga: Any) -> None:
    cluster, _ = make_fleet()
    assert changes(operator) == {"admin_password": "", "ssh_private_key": ""}
    save_cluster(actor=olga, cluster=cluster, values={"admin_password": OTHER})
    save_cluster(actor=olga, cluster=cluster, values={"write_addresses": ["10.0.0.1:3306"]})
    append(actor="mallory", action="host.changed", subject="shop")
    assert changes(operator) == {"admin_password": "olga", "ssh_private_key": ""}
    text = page(operator)
    assert "olga" in text
    assert "mallory" not in text
    assert OTHER not in text


def test_credentials_page_lists_problems_first_with_a_filter(operator: Client, settings: Any) -> None:
    for number in range(60):
        make_cluster(f"c-{number:02}")
    make_host("zulu", ssh_key_file="/nowhere/key")
    text = page(operator)
    assert text.index("zulu") < text.index("c-00")
    assert 'href="?page=2"' in text
    assert "c-00" not in page(operator, "?show=problems")
    assert "c-59" in page(operator, "?page=2")


def test_credentials_page_takes_fixed_queries_for_many_owners(
    operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for first in (0, 20):
        for number in range(first, first + 20):
            make_fleet(f"c-{number:02}")
        with django_assert_num_queries(10):
            page(operator)


def test_lost_key_affects_only_uses_of_the_secret(operator: Client, settings: Any) -> None:
    make_fleet()
    tokens = stored_tokens()
    change_key(settings, keep=False)
    for address in ("/", "/clusters/shop/", "/inventory/", "/inventory/cluster/shop/", "/inventory/host/host-shop/"):
        assert operator.get(address).status_code == 200, address
    host = Host.objects.get()
    with pytest.raises(Refused) as refused:
        private_key_of(host)
    assert refused.value.code == "secret.lost"
    assert "host-shop" in str(refused.value)
    host.ssh_user = "other"
    host.save()
    assert stored_tokens() == tokens, "what cannot be read is kept as it is: the key may come back"


def test_secret_can_be_replaced_when_its_key_is_lost(olga: Any, settings: Any) -> None:
    make_fleet()
    change_key(settings, keep=False)
    save_cluster(actor=olga, cluster=Cluster.objects.get(), values={"admin_password": OTHER})
    assert Cluster.objects.get().admin_password == OTHER
    assert AuditEntry.objects.get(action="cluster.changed").detail["admin_password"] == "changed"


def test_is_set_works_without_loading_the_column(settings: Any) -> None:
    _, host = make_fleet()
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    assert is_set(Host.objects.defer("ssh_private_key").get(), "ssh_private_key")
    host.ssh_private_key = ""
    host.save()
    assert not is_set(Host.objects.get(), "ssh_private_key")
