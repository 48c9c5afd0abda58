"""Paths in Vault in the fleet file and in the forms: who may set them, and that no secret is copied into the database."""

from typing import Any

import pytest
from django.test import Client

from dbops.engine.errors import NoAccess, Refused
from dbops.models import AuditEntry, Cluster, ClusterRole, Host, Instance
from dbops.models.secret import as_stored, vault_path
from dbops.operations.fleet import FleetFileErrors, export_fleet, save_cluster
from dbops.security.vault_paths import VaultPath
from dbops.security.vault_settings import VaultSettings
from tests.app.factories import make_viewer
from tests.app.fleetfile.builders import FleetFolder, private_key
from tests.app.fleetfile.test_forms import edit_url, errors, shown
from tests.vault_server import OpenBao

pytestmark = pytest.mark.django_db


@pytest.fixture
def away(settings: Any) -> None:
    """A Vault that does not answer: forms and files must not need it."""
    settings.VAULT = VaultSettings(address="https://127.0.0.1:9", token_file="/nowhere", timeout_seconds=1)


def text(folder: FleetFolder) -> str:
    return folder.text.replace('password: "admin-s3cret"', 'password_vault: "clusters/shop#admin"').replace(
        f"192.0.2.2, key_file: {folder.key_file}", '192.0.2.2, key_vault: "hosts/db-2#key"'
    )


def column(model: Any, secret: str, **row: str) -> str:
    return str(model.objects.annotate(raw=as_stored(secret)).values_list("raw", flat=True).get(**row))


@pytest.mark.usefixtures("away")
class TestFile:
    def test_import_stores_paths_and_export_writes_them(self, folder: FleetFolder) -> None:
        folder.load(text(folder))
        assert column(Cluster, "admin_password") == "vault:clusters/shop#admin"
        assert column(Host, "ssh_private_key", name="db-2") == "vault:hosts/db-2#key"
        report = folder.load(text(folder))
        assert report.count("unchanged") == len(report.items)
        exported = export_fleet()
        assert "password_vault: clusters/shop#admin" in exported
        assert "key_vault: hosts/db-2#key" in exported
        assert {item.outcome for item in folder.load(exported).items} == {"unchanged"}
        detail = AuditEntry.objects.get(action="cluster.created").detail
        assert (detail["admin_password"], detail["replication_password"]) == ("set to vault:clusters/shop#admin", "set")

    def test_a_path_replaces_a_secret_and_back(self, folder: FleetFolder) -> None:
        folder.load()
        folder.load(text(folder))
        assert column(Cluster, "admin_password") == "vault:clusters/shop#admin"
        assert Host.objects.get(name="db-2").ssh_key_file == ""
        folder.load()
        assert (Cluster.objects.get().admin_password, vault_path(Host.objects.get(name="db-2"), "ssh_private_key")) == (
            "admin-s3cret",
            None,
        )

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('password_vault: "clusters/shop#admin"', 'password_vault: "../other/x#admin"'),
            ('password_vault: "clusters/shop#admin"', 'password_vault: "clusters/shop"'),
            ('password_vault: "clusters/shop#admin"', 'password_vault: "clusters/shop#admin", password: x'),
            ('key_vault: "hosts/db-2#key"', 'key_vault: "/hosts#key"'),
            ('key_vault: "hosts/db-2#key"', 'key_vault: "hosts/db-2#key", key_file: x'),
        ],
    )
    def test_wrong_paths_are_errors_of_their_line(self, folder: FleetFolder, old: str, new: str) -> None:
        assert old in text(folder)
        with pytest.raises(FleetFileErrors) as found:
            folder.load(text(folder).replace(old, new))
        [line] = [number for number, line in enumerate(text(folder).splitlines(), 1) if old in line]
        assert {error.line for error in found.value.errors} == {line}

    def test_without_a_vault_a_path_is_an_error(self, folder: FleetFolder, settings: Any) -> None:
        settings.VAULT = VaultSettings()
        with pytest.raises(FleetFileErrors):
            folder.load(text(folder))


@pytest.mark.usefixtures("away")
class TestForms:
    def test_a_saved_form_changes_nothing(self, folder: FleetFolder, operator: Client) -> None:
        folder.load(text(folder))
        entries = AuditEntry.objects.count()
        for kind, name in (("host", "db-2"), ("cluster", "shop"), ("instance", "shop-1")):
            assert operator.post(edit_url(kind, name), shown(operator, edit_url(kind, name))).status_code == 302
        assert AuditEntry.objects.count() == entries

    def test_a_path_replaces_a_password_and_back(self, folder: FleetFolder, operator: Client) -> None:
        folder.load()
        url = edit_url("cluster", "shop")
        operator.post(url, shown(operator, url) | {"admin_password_vault": "clusters/shop#admin"})
        assert column(Cluster, "admin_password") == "vault:clusters/shop#admin"
        values = shown(operator, url)
        assert values["admin_password_vault"] == "clusters/shop#admin"
        both = operator.post(url, values | {"admin_password": "typed", "admin_password_vault": "clusters/shop#new"})
        assert set(errors(both)) == {"admin_password_vault"}
        assert set(errors(operator.post(url, values | {"admin_password_vault": ""}))) == {"admin_password"}
        operator.post(url, values | {"admin_password": "typed", "admin_password_vault": ""})
        assert Cluster.objects.get().admin_password == "typed"

    def test_a_typed_password_is_never_a_path(self, folder: FleetFolder, operator: Client) -> None:
        folder.load()
        url = edit_url("cluster", "shop")
        operator.post(url, shown(operator, url) | {"admin_password": "vault:clusters/bank#admin"})
        cluster = Cluster.objects.get()
        assert (vault_path(cluster, "admin_password"), cluster.admin_password) == (None, "vault:clusters/bank#admin")

    def test_a_key_of_a_host(self, folder: FleetFolder, operator: Client) -> None:
        folder.load()
        url = edit_url("host", "db-2")
        values = shown(operator, url)
        path = {"ssh_private_key_vault": "hosts/db-2#key"}
        assert set(errors(operator.post(url, values | path))) == {"ssh_private_key"}, "a file and a path"
        operator.post(url, {**values, "ssh_key_file": "", **path})
        assert column(Host, "ssh_private_key", name="db-2") == "vault:hosts/db-2#key"
        left = shown(operator, url) | {"ssh_private_key_vault": ""}
        assert set(errors(operator.post(url, left))) == {"ssh_key_file"}
        operator.post(url, left | {"ssh_private_key": private_key()})
        assert "PRIVATE KEY" in Host.objects.get(name="db-2").ssh_private_key

    def test_without_a_vault_there_is_no_field_and_a_path_stays(
        self, folder: FleetFolder, operator: Client, settings: Any
    ) -> None:
        folder.load(text(folder))
        settings.VAULT = VaultSettings()
        url = edit_url("cluster", "shop")
        values = shown(operator, url)
        assert "admin_password_vault" not in values
        operator.post(url, values | {"write_addresses": "a:1"})
        assert column(Cluster, "admin_password") == "vault:clusters/shop#admin"

    def test_a_page_that_is_older_than_a_path_is_refused(self, folder: FleetFolder, operator: Client) -> None:
        folder.load(text(folder))
        url = edit_url("cluster", "shop")
        values = shown(operator, url)
        folder.load(text(folder).replace("shop#admin", "shop#other"))
        assert operator.post(url, values).status_code == 422
        assert column(Cluster, "admin_password") == "vault:clusters/shop#other"

    def test_an_admin_of_one_cluster_sets_no_path(self, folder: FleetFolder, client: Client) -> None:
        folder.load()
        vera, shop = make_viewer("vera"), Cluster.objects.get()
        ClusterRole.objects.create(user=vera, cluster=shop, role="admin")
        client.force_login(vera)
        url = edit_url("cluster", "shop")
        values = shown(client, url)
        client.post(url, values | {"admin_password_vault": "clusters/bank#admin", "write_addresses": "a:1"})
        shop.refresh_from_db()
        assert (vault_path(shop, "admin_password"), shop.write_addresses) == (None, ["a:1"])
        with pytest.raises(Refused) as found:
            save_cluster(actor=vera, cluster=shop, values={"admin_password": VaultPath("clusters/bank#admin")})
        assert found.value.code == "access.denied"
        folder.load(text(folder))
        kept = Cluster.objects.get()
        values = {"admin_password": VaultPath("clusters/shop#admin"), "write_addresses": ["b:1"]}
        assert save_cluster(actor=vera, cluster=kept, values=values).write_addresses == ["b:1"]


class TestRows:
    def test_what_was_read_is_not_copied_into_the_database(self, folder: FleetFolder, bao: OpenBao) -> None:
        folder.load(text(folder))
        bao.write("clusters/shop", admin="s3cret of shop\n")
        shop = Cluster.objects.get()
        assert shop.admin_password == "s3cret of shop"
        shop.save()
        shop.full_clean()
        shop.save(update_fields=["admin_password"])
        assert column(Cluster, "admin_password") == "vault:clusters/shop#admin"
        assert "s3cret of shop" not in repr(vars(shop))

    def test_a_password_with_control_characters_is_refused(self, folder: FleetFolder, bao: OpenBao) -> None:
        folder.load(text(folder))
        bao.write("clusters/shop", admin="a\nb")
        with pytest.raises(NoAccess) as found:
            _ = Cluster.objects.get().admin_password
        assert found.value.code == "vault.bad_value"

    def test_an_instance_has_a_path_of_its_own(self, folder: FleetFolder, bao: OpenBao) -> None:
        folder.load(text(folder))
        bao.write("instances/shop-1", admin="s3cret of shop-1")
        row = Instance.objects.get(name="shop-1")
        row.admin_user, row.admin_password = "own", VaultPath("instances/shop-1#admin")
        row.save()
        assert (row.admin_password, Instance.objects.get(name="shop-1").admin_password) == ("s3cret of shop-1",) * 2
