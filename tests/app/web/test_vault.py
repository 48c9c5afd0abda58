"""Secrets in Vault where they are used and shown: accounts, SSH keys with certificates, probes, the page, the command."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from dbops.database import clock
from dbops.engine.errors import Unreachable
from dbops.loaders.accounts import account_of, secrets_of, shared_logins
from dbops.loaders.ssh_addresses import ssh_address_of
from dbops.models import AuditEntry, Cluster, Host, Instance, InstanceState
from dbops.models.secret import as_stored
from dbops.operations.secrets import count_secrets, rotate_secrets
from dbops.operations.vault import check_vault
from dbops.security.vault_paths import VaultPath
from dbops.security.vault_settings import VaultSettings
from dbops.worker.prober import probe_all
from tests.app.factories import make_cluster, make_host, make_instance
from tests.vault_server import OpenBao

pytestmark = pytest.mark.django_db
URL = "/admin/credentials/vault/"


@pytest.fixture
def cluster(bao: OpenBao) -> Cluster:
    bao.write("clusters/shop", admin="s3cret of shop", backup="s3cret of backup")
    return make_cluster(
        admin_user="dbops",
        admin_password=VaultPath("clusters/shop#admin"),
        backup_user="backup",
        backup_password=VaultPath("clusters/shop#backup"),
        replication_user="repl",
        replication_password="s3cret of repl",
    )


@pytest.fixture
def key(bao: OpenBao, tmp_path: Path) -> str:
    """A key in Vault, with a certificate beside it."""
    for name in ("ca", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    words = ["ssh-keygen", "-q", "-s", tmp_path / "ca", "-I", "test", "-n", "dbops", "-V", "+1h", tmp_path / "key.pub"]
    subprocess.run(words, check=True, capture_output=True)
    private, public = (tmp_path / "key").read_text(), (tmp_path / "key-cert.pub").read_text()
    bao.write("hosts/db-1", **{"key": private, "key-cert.pub": public, "bare": private})
    return private.strip()


def test_accounts_and_what_is_kept_out_of_stored_text(cluster: Cluster) -> None:
    first, second = (make_instance(f"r{number}", cluster=cluster) for number in range(2))
    assert account_of(first, "admin").password == "s3cret of shop"
    assert shared_logins(first, [first, second]) == ("dbops", "backup")
    assert set(secrets_of(cluster)) - {""} == {"s3cret of shop", "s3cret of backup", "s3cret of repl"}


@pytest.mark.parametrize(("field", "has_certificate"), [("key", True), ("bare", False)])
def test_a_key_with_the_certificate_beside_it(bao: OpenBao, key: str, field: str, has_certificate: bool) -> None:
    host = make_host("db-1", ssh_private_key=VaultPath(f"hosts/db-1#{field}"), ssh_key_file="")
    found = ssh_address_of(host)
    assert (found.private_key.strip(), bool(found.certificate)) == (key, has_certificate)
    behind = ssh_address_of(make_host("db-2", jump_host=host, ssh_private_key=key))
    assert behind.jump is not None
    assert behind.jump.private_key.strip() == key


def test_a_probe_says_that_vault_is_away(bao: OpenBao, key: str, settings: Any) -> None:
    host = make_host("db-1", ssh_private_key=VaultPath("hosts/db-1#key"), ssh_key_file="")
    instance = make_instance("r1", host=host, cluster=make_cluster())
    InstanceState.objects.create(instance=instance, probe_due_at=clock.now())
    instance = Instance.objects.select_related("host", "cluster", "state__period").get(pk=instance.pk)
    settings.VAULT = VaultSettings(address="https://127.0.0.1:9", token_file=bao.token_file(), timeout_seconds=1)
    with pytest.raises(Unreachable):
        ssh_address_of(host)
    probe_all([instance])
    facts = Instance.objects.get(pk=instance.pk).state.facts()
    assert facts is not None
    assert facts.host_problem is not None
    assert facts.host_problem.code == "vault.unreachable"


def test_rotation_of_the_key_leaves_paths_alone(cluster: Cluster) -> None:
    rotate_secrets(actor="root", make_key=False)
    raw = Cluster.objects.annotate(raw=as_stored("admin_password")).values_list("raw", flat=True).get()
    assert raw == "vault:clusters/shop#admin"
    counts = {(one.table, one.column): one for one in count_secrets()}
    assert counts["cluster", "admin_password"].in_vault == 1
    assert counts["cluster", "admin_password"].current == counts["cluster", "admin_password"].unreadable == 0


class TestPage:
    def test_it_says_only_whether_each_secret_can_be_read(self, cluster: Cluster, operator: Client) -> None:
        Cluster.objects.filter(pk=cluster.pk).update(backup_password=VaultPath("clusters/shop#missing"))
        before = operator.get(URL)
        assert [one.error for one in before.context["secrets"]] == [None, None]
        answer = operator.post(URL)
        found = {one.path: one.error and one.error.code for one in answer.context["secrets"]}
        assert found == {"clusters/shop#admin": None, "clusters/shop#missing": "vault.missing"}
        assert (answer.context["failed"], b"s3cret" in answer.content) == (1, False)
        entry = AuditEntry.objects.get(action="vault.checked")
        assert entry.detail == {"secrets": 2, "failed": 1}

    def test_it_asks_again_whatever_is_kept(self, cluster: Cluster, bao: OpenBao, operator: Client) -> None:
        assert cluster.admin_password
        bao.seal()
        codes = {one.error.code for one in operator.post(URL).context["secrets"]}
        assert codes == {"vault.sealed"}
        assert Cluster.objects.get().admin_password == "s3cret of shop"

    def test_credentials_show_where_each_is(self, cluster: Cluster, operator: Client) -> None:
        make_host("db-1", ssh_private_key=VaultPath("hosts/db-1#key"), ssh_key_file="", ssh_user="dbops")
        answer = operator.get("/admin/credentials/")
        found = {
            (owner.name, secret.column): (secret.state, secret.note)
            for owner in answer.context["page"]
            for secret in owner.secrets
        }
        assert found["shop", "admin_password"] == ("vault", "dbops, clusters/shop#admin")
        assert found["shop", "replication_password"][0] == "stored"
        assert found["db-1", "ssh_private_key"] == ("vault", "dbops, hosts/db-1#key")
        assert b"s3cret" not in answer.content

    def test_pages_work_while_vault_is_away(self, cluster: Cluster, operator: Client, settings: Any) -> None:
        make_instance("r1", cluster=cluster)
        settings.VAULT = VaultSettings(address="https://127.0.0.1:9", token_file="/nowhere", timeout_seconds=1)
        paths = ("/admin/credentials/", URL, "/inventory/", "/inventory/cluster/shop/", "/clusters/shop/", "/")
        assert {operator.get(path, follow=True).status_code for path in paths} == {200}


def test_command_lists_them_without_a_value(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("vault", "check")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[1:] for line in lines] == [
        ["admin_password", "clusters/shop#admin", "readable"],
        ["backup_password", "clusters/shop#backup", "readable"],
    ]
    Cluster.objects.update(backup_password=VaultPath("clusters/none#x"))
    with pytest.raises(CommandError):
        call_command("vault", "check")
    assert "s3cret" not in capsys.readouterr().out


def test_value_that_cannot_be_the_secret_is_named(cluster: Cluster, bao: OpenBao, olga: User) -> None:
    bao.write("clusters/shop", admin="two\nlines", backup="s3cret")
    found = {one.column: one.error and one.error.code for one in check_vault(actor=olga.get_username())}
    assert found == {"admin_password": "vault.bad_value", "backup_password": None}


def test_without_a_vault_every_path_is_off(cluster: Cluster, settings: Any, olga: User) -> None:
    settings.VAULT = VaultSettings()
    assert {one.error.code for one in check_vault(actor=olga.get_username()) if one.error} == {"vault.off"}
    assert Host.objects.count() == 0
