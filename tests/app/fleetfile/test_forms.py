"""Adding and changing the inventory in the browser: the file's rules, and secrets that only go in."""

import re
from datetime import date

import pytest
from django.urls import reverse
from django.utils import translation

from dbops.engine.availability.days import RULES
from dbops.engine.states import RunStatus
from dbops.fleetfile.rules import own_problem
from dbops.models import AuditEntry, Cluster, CountedDays, Host, Instance, InstanceState
from dbops.web.templatetags.phrases import translated
from tests.app.backup_rows import make_run, make_schedule
from tests.app.factories import make_rebuild
from tests.app.fleetfile.builders import SECRETS, private_key
from tests.said import names

pytestmark = pytest.mark.django_db


def edit_url(kind: str, name: str) -> str:
    return reverse("inventory-edit", args=[kind, name])


def shown(client, url: str) -> dict[str, str]:
    """Return what a browser would send when nothing is changed."""
    form = client.get(url).context["form"]
    values = {name: form[name].value() for name in form.fields}
    assert all(not values[name] for name in form.secrets)
    return {name: value for name, value in values.items() if value not in (None, False)}


def errors(response) -> dict[str, list[str]]:
    assert response.status_code == 422
    return dict(response.context["form"].errors)


@pytest.mark.parametrize(
    ("kind", "name", "field", "wrong"),
    [
        ("host", "db-1", "name", "a b"),
        ("host", "db-1", "ssh_address", "a b"),
        ("instance", "shop-2", "start_command", "srv"),
        ("instance", "shop-2", "start_command", "'srv"),
        ("instance", "shop-1", "datadir", "mysql"),
    ],
)
def test_problems_of_values_follow_the_language(fleet, operator, kind, name, field, wrong):
    values = {**shown(operator, edit_url(kind, name)), field: wrong}
    found = {}
    for language in ("en", "ja"):
        operator.cookies["dbops_language"] = language
        with translation.override(language):
            found[language] = [str(text) for text in errors(operator.post(edit_url(kind, name), values))[field]]
    assert all(text.isascii() for text in found["en"])
    assert not any(text.isascii() for text in found["ja"])


def hint(page: str) -> str:
    """Return the help text of a host's private key."""
    [found] = re.findall(r'id="id_ssh_private_key_helptext">(.*?)</div>', page, re.DOTALL)
    return found


@pytest.fixture
def fleet(folder, operator, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("dbops.operations.fleet.record_item", lambda *_, **__: None)
        folder.load()
    return folder


@pytest.mark.parametrize(("kind", "name"), [("host", "db-1"), ("cluster", "shop"), ("instance", "shop-2")])
def test_saving_an_unchanged_form_changes_nothing(fleet, operator, kind, name):
    before = [list(model.objects.order_by("pk").values()) for model in (Host, Cluster, Instance)]
    response = operator.post(edit_url(kind, name), shown(operator, edit_url(kind, name)))
    assert response.status_code == 302
    assert [list(model.objects.order_by("pk").values()) for model in (Host, Cluster, Instance)] == before
    assert not AuditEntry.objects.exists()


def test_empty_secret_keeps_the_stored_one_and_a_new_one_replaces_it(fleet, operator):
    values = shown(operator, edit_url("cluster", "shop"))
    operator.post(
        edit_url("cluster", "shop"), values | {"write_addresses": "a:1\r\nb:2\r\n", "replication_password": "new one"}
    )
    cluster = Cluster.objects.get()
    assert (cluster.admin_password, cluster.replication_password) == ("admin-s3cret", "new one")
    assert cluster.write_addresses == ["a:1", "b:2"]
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.subject) == ("olga", "cluster.changed", "shop")
    assert entry.detail == {
        "via": "browser",
        "write_addresses": "db.shop.example:3306 → a:1, b:2",
        "replication_password": "changed",
    }


def test_saving_another_replica_target_discards_counted_days(fleet, operator):
    cluster = Cluster.objects.get()
    CountedDays.objects.create(cluster=cluster, since=date(2026, 1, 1), until=date(2026, 2, 1), rules=RULES)
    values = shown(operator, edit_url("cluster", "shop"))
    operator.post(edit_url("cluster", "shop"), values)
    assert CountedDays.objects.exists(), "nothing was changed"
    operator.post(edit_url("cluster", "shop"), values | {"wanted_replicas": "1"})
    assert Cluster.objects.get().wanted_replicas == 1
    assert AuditEntry.objects.get().detail["wanted_replicas"].endswith("→ 1")
    assert not CountedDays.objects.exists()


def test_redundancy_goal_is_entered_in_minutes(fleet, operator):
    values = shown(operator, edit_url("cluster", "shop"))
    operator.post(edit_url("cluster", "shop"), values | {"redundancy_goal_seconds": "150"})
    assert Cluster.objects.get().redundancy_goal_seconds == 9000
    assert AuditEntry.objects.get().detail["redundancy_goal_seconds"].endswith("→ 9000")
    values = shown(operator, edit_url("cluster", "shop"))
    assert str(values["redundancy_goal_seconds"]) == "150"
    response = operator.post(edit_url("cluster", "shop"), values | {"redundancy_goal_seconds": "0"})
    assert "redundancy_goal_seconds" in errors(response)
    operator.post(edit_url("cluster", "shop"), values | {"redundancy_goal_seconds": ""})
    assert Cluster.objects.get().redundancy_goal_seconds is None


def test_restore_host_without_instances_cannot_be_removed(fleet, operator):
    values = shown(operator, edit_url("cluster", "shop"))
    operator.post(edit_url("cluster", "shop"), values | {"restore_test_host": "db-2"})
    Instance.objects.filter(host__name="db-2").delete()
    page = operator.get(edit_url("cluster", "shop"))
    assert b"db-2 (" in page.content
    operator.post(edit_url("cluster", "shop"), shown(operator, edit_url("cluster", "shop")) | {"wanted_replicas": "1"})
    assert (Cluster.objects.get().restore_test_host, Cluster.objects.get().wanted_replicas) == ("db-2", 1)
    operator.post(edit_url("cluster", "shop"), shown(operator, edit_url("cluster", "shop")) | {"restore_test_host": ""})
    assert b"db-2" not in operator.get(edit_url("cluster", "shop")).content


def test_restore_host_must_be_probed_and_follows_a_rename(fleet, operator):
    values = shown(operator, edit_url("cluster", "shop"))
    assert "restore_test_host" in errors(
        operator.post(edit_url("cluster", "shop"), values | {"restore_test_host": "db-99"})
    )
    operator.post(edit_url("cluster", "shop"), values | {"restore_test_host": "db-2"})
    assert Cluster.objects.get().restore_test_host == "db-2"
    assert AuditEntry.objects.get().detail["restore_test_host"].endswith("→ db-2")
    operator.post(edit_url("host", "db-2"), shown(operator, edit_url("host", "db-2")) | {"name": "db-2b"})
    assert Cluster.objects.get().restore_test_host == "db-2b"
    response = operator.post(reverse("inventory-remove", args=["host", "db-2b"]), {"typed_name": "db-2b"})
    assert (response.status_code, response.context["refused"].code) == (409, "fleet.in_use")
    assert Host.objects.filter(name="db-2b").exists()


def test_pages_never_render_a_secret(fleet, operator):
    Host.objects.filter(name="db-2").update(ssh_private_key=private_key(), ssh_key_file="")
    pages = [edit_url("cluster", "shop"), edit_url("host", "db-2"), reverse("inventory"), reverse("inventory-export")]
    for url in pages:
        text = operator.get(url).content.decode()
        assert not any(secret in text for secret in SECRETS), url
    hints = {name: hint(operator.get(edit_url("host", name)).content.decode()) for name in ("db-1", "db-2")}
    assert hints["db-1"] != hints["db-2"], "which secrets are stored is seen"


def test_forms_never_return_a_sent_secret(fleet, operator):
    values = shown(operator, edit_url("cluster", "shop")) | {"name": "a b", "admin_password": "typed-s3cret"}
    response = operator.post(edit_url("cluster", "shop"), values)
    assert "name" in errors(response)
    assert b"typed-s3cret" not in response.content
    values = shown(operator, edit_url("host", "db-1")) | {"name": "a b", "ssh_private_key": private_key()}
    assert b"PRIVATE KEY" not in operator.post(edit_url("host", "db-1"), values).content


def test_removed_account_loses_its_password(fleet, operator):
    operator.post(edit_url("cluster", "shop"), shown(operator, edit_url("cluster", "shop")) | {"replication_user": ""})
    cluster = Cluster.objects.get()
    assert (cluster.replication_user, cluster.replication_password) == ("", "")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"admin_user": "other"}, "admin_password"),
        ({"backup_user": "backup"}, "backup_password"),
        ({"backup_password": "x"}, "backup_user"),
        ({"admin_user": "o'ther", "admin_password": "x"}, "admin_user"),
        ({"admin_user": "other;", "admin_password": "x"}, "admin_user"),
        ({"admin_user": "oth\ner", "admin_password": "x"}, "admin_user"),
        ({"admin_password": "a\nb"}, "admin_password"),
        ({"write_addresses": "a b"}, "write_addresses"),
        ({"name": "shop;1"}, "name"),
        ({"name": "shop'1"}, "name"),
        ({"name": "shop\n1"}, "name"),
    ],
)
def test_cluster_form_applies_the_rules_of_the_file(fleet, operator, given, field):
    response = operator.post(edit_url("cluster", "shop"), shown(operator, edit_url("cluster", "shop")) | given)
    assert list(errors(response)) == [field]
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "DB-2"}, "name"),
        ({"ssh_address": "192.0.2.2"}, "ssh_address"),
        ({"ssh_port": "0"}, "ssh_port"),
        ({"ssh_user": "ro;ot"}, "ssh_user"),
        ({"ssh_key_file": "/no/such"}, "ssh_key_file"),
        ({"ssh_key_file": ""}, "ssh_key_file"),
        ({"ssh_private_key": "x"}, "ssh_private_key"),
        ({"work_dir": "/var/lib/mysql/dbops"}, "work_dir"),
        ({"work_dir": "/etc"}, "work_dir"),
        ({"authorized_keys_file": "keys"}, "authorized_keys_file"),
    ],
)
def test_host_form_applies_the_rules_of_the_file(fleet, operator, given, field):
    response = operator.post(edit_url("host", "db-1"), shown(operator, edit_url("host", "db-1")) | given)
    assert list(errors(response)) == [field]
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"role": "primary"}, "role"),
        ({"role": "king"}, "role"),
        ({"address": "192.0.2.1"}, "address"),
        ({"port": "70000"}, "port"),
        ({"datadir": "/var/lib"}, "datadir"),
        ({"datadir": "/a/../b"}, "datadir"),
        ({"datadir": "/var/lib/dbops/x"}, "datadir"),
        ({"os_user": "my;sql"}, "os_user"),
        ({"group_suffix": "a b"}, "group_suffix"),
        ({"replication_tls": "perhaps"}, "replication_tls"),
        ({"replication_tls_ca": "ca.pem"}, "replication_tls_ca"),
        ({"replication_delay_seconds": "-1"}, "replication_delay_seconds"),
        ({"systemd_unit": "mariadb"}, "__all__"),
        ({"systemd_unit": "mariadb", "start_command": ""}, "systemd_unit"),
        ({"stop_command": ""}, "__all__"),
        ({"start_command": "start"}, "start_command"),
        ({"start_command": "/x 'y"}, "start_command"),
        ({"name": "shop-1"}, "name"),
    ],
)
def test_instance_form_applies_the_rules_of_the_file(fleet, operator, given, field):
    response = operator.post(edit_url("instance", "shop-2"), shown(operator, edit_url("instance", "shop-2")) | given)
    assert field in errors(response)
    assert not AuditEntry.objects.exists()


def test_typed_key_replaces_the_key_file_and_back(fleet, operator):
    url = edit_url("host", "db-1")
    sent = private_key().replace("\n", "\r\n")
    both = shown(operator, url) | {"ssh_private_key": sent}
    assert list(errors(operator.post(url, both))) == ["ssh_private_key"]
    operator.post(url, both | {"ssh_key_file": ""})
    host = Host.objects.get(name="db-1")
    assert (host.ssh_private_key, host.ssh_key_file) == (private_key(), "")
    operator.post(url, shown(operator, url) | {"ssh_user": "admin"})
    host.refresh_from_db()
    assert (host.ssh_private_key, host.ssh_user) == (private_key(), "admin")
    operator.post(url, shown(operator, url) | {"ssh_key_file": str(fleet.key_file)})
    host.refresh_from_db()
    assert (host.ssh_private_key, host.ssh_key_file) == ("", str(fleet.key_file))


def test_fleet_can_be_built_in_the_browser(operator, folder):
    host = {
        "name": "db-9",
        "ssh_address": "192.0.2.9",
        "ssh_port": "22",
        "ssh_user": "root",
        "ssh_key_file": str(folder.key_file),
    }
    response = operator.post(reverse("inventory-add", args=["host"]), host | {"work_dir": "/var/lib/dbops"})
    assert response["Location"] == reverse("host-key", args=["db-9"])
    cluster = {"name": "blog", "admin_user": "dbops", "admin_password": " quote' \"and; more "}
    operator.post(reverse("inventory-add", args=["cluster"]), cluster)
    instance = {
        "name": "blog-1",
        "cluster": Cluster.objects.get().pk,
        "host": Host.objects.get().pk,
        "role": "primary",
        "port": "3306",
        "datadir": "/srv/mysql",
        "defaults_file": "/etc/my.cnf",
        "os_user": "mysql",
        "systemd_unit": "mariadb",
    }
    assert operator.post(reverse("inventory-add", args=["instance"]), instance).status_code == 302
    assert Instance.objects.get().address == "192.0.2.9"
    assert Cluster.objects.get().admin_password == cluster["admin_password"]
    assert InstanceState.objects.get().instance.name == "blog-1"
    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == [
        "host.created",
        "cluster.created",
        "instance.created",
    ]


def test_form_refuses_to_overwrite_a_concurrent_change(fleet, operator):
    url = edit_url("instance", "shop-2")
    values = shown(operator, url)
    Instance.objects.filter(name="shop-2").update(os_user="percona")
    assert list(errors(operator.post(url, values))) == ["__all__"]
    assert Instance.objects.get(name="shop-2").os_user == "percona"


def test_form_refuses_to_change_an_instance_in_a_rebuild(fleet, operator, olga):
    one, two = Instance.objects.order_by("name")
    rebuild = make_rebuild(target=two, source=one, requested_by=olga)
    url = edit_url("instance", "shop-2")
    [found] = errors(operator.post(url, shown(operator, url) | {"port": "3307"})).values()
    assert names(str(found), f"Rebuild {rebuild.pk}", "shop-2", "port")
    assert operator.post(url, shown(operator, url) | {"defaults_file": "/etc/other.cnf"}).status_code == 302


def test_form_refuses_to_change_the_host_of_a_running_backup(fleet, operator):
    run = make_run(make_schedule(Instance.objects.get(name="shop-2")), RunStatus.RUNNING)
    for kind, name, change in (
        ("host", "db-2", {"work_dir": "/srv/x"}),
        ("instance", "shop-2", {"address": "192.0.2.9"}),
    ):
        url = edit_url(kind, name)
        response = operator.post(url, shown(operator, url) | change)
        assert response.status_code == 422
        assert names(str(errors(response)).lower(), f"backup run {run.pk}", *change)


def test_instance_gets_accounts_of_its_own(fleet, operator):
    url = edit_url("instance", "shop-2")
    values = shown(operator, url)
    assert "admin_password" in errors(operator.post(url, values | {"admin_user": "dbops_2"}))
    assert "admin_user" in errors(operator.post(url, values | {"admin_password": "own-s3cret"}))
    given = {"admin_user": "dbops_2", "admin_password": "own-s3cret", "backup_user": "root", "backup_socket": "on"}
    assert operator.post(url, values | given).status_code == 302
    instance = Instance.objects.get(name="shop-2")
    assert (instance.admin_password, instance.backup_user, instance.backup_password) == ("own-s3cret", "root", "")
    assert "own-s3cret" not in str(AuditEntry.objects.get().detail)
    assert operator.post(url, shown(operator, url)).status_code == 302
    assert AuditEntry.objects.count() == 1, "an unchanged form keeps both"
    assert b"own-s3cret" not in operator.get(url).content
    without = shown(operator, url)
    del without["admin_user"]
    assert operator.post(url, without).status_code == 302
    instance.refresh_from_db()
    assert (instance.admin_user, instance.admin_password) == ("", "")


def test_socket_authentication_removes_the_password(fleet, operator):
    url = edit_url("cluster", "shop")
    values = shown(operator, url) | {"backup_user": "root", "backup_password": "x"}
    assert "backup_password" in errors(operator.post(url, values | {"backup_socket": "on"}))
    assert operator.post(url, values).status_code == 302
    assert Cluster.objects.get().backup_password == "x"
    operator.post(url, shown(operator, url) | {"backup_socket": "on"})
    assert Cluster.objects.get().backup_password == ""
    values = shown(operator, url)
    assert values["backup_socket"]
    del values["backup_socket"]
    assert "backup_password" in errors(operator.post(url, values))


def test_problems_of_values_are_in_the_language_of_the_page() -> None:
    values = {"port": 0, "datadir": "relative", "role": "replika", "cron": "* *", "keep_count": 0, "host_key": "a\nb"}
    with translation.override("ja"):
        for name, value in values.items():
            problem = own_problem(name, value)
            assert problem
            assert translated(problem) != problem
