"""What an import writes, keeps and refuses."""

import re

import pytest
from django.db import IntegrityError, connection, transaction

from dbops.engine.states import RunOrigin, RunStatus
from dbops.models import AuditEntry, BackupRun, Cluster, Host, Instance, InstanceState
from dbops.operations.fleet import FleetFileErrors, export_fleet
from tests.app.backup_rows import make_run, make_schedule
from tests.app.factories import make_rebuild
from tests.app.fleetfile.builders import SECRETS, host_key, private_key
from tests.app.restore_test_rows import ended_restore_test, made
from tests.said import names

pytestmark = pytest.mark.django_db


def errors_of(folder, text, **options) -> list[str]:
    with pytest.raises(FleetFileErrors) as caught:
        folder.load(text, **options)
    return [str(error) for error in caught.value.errors]


def changed(report) -> list[tuple[str, str, list[str]]]:
    return [(item.kind, item.name, item.fields) for item in report.items if item.outcome == "changed"]


def test_import_creates_rows_with_defaults(folder):
    report = folder.load()
    assert (report.count("created"), report.count("changed"), report.count("unchanged")) == (5, 0, 0)
    host, instance = Host.objects.get(name="db-1"), Instance.objects.get(name="shop-1")
    assert (host.ssh_port, host.ssh_user, host.work_dir, host.host_key_accepted_by) == (
        22,
        "root",
        "/var/lib/dbops",
        "tester",
    )
    assert host.host_key == host_key()
    assert host.host_key_accepted_at is not None
    assert (instance.address, instance.port, instance.os_user) == ("192.0.2.1", 3306, "mysql")
    assert Cluster.objects.get().admin_password == "admin-s3cret"
    assert InstanceState.objects.filter(observed_at=None).count() == 2
    assert set(AuditEntry.objects.values_list("action", flat=True)) == {
        "host.created",
        "cluster.created",
        "instance.created",
    }


def test_import_changes_nothing_the_second_time(folder):
    folder.load()
    entries = AuditEntry.objects.count()
    report = folder.load()
    assert (report.count("unchanged"), len(report.items)) == (5, 5)
    assert AuditEntry.objects.count() == entries


def test_dry_run_reports_and_changes_nothing(folder):
    assert folder.load(dry_run=True).count("created") == 5
    assert not Host.objects.exists()
    assert not AuditEntry.objects.exists()


def test_import_reports_changes_by_field_without_secrets(folder):
    folder.load()
    text = folder.text.replace("role: replica", "role: backup").replace("admin-s3cret", "new-s3cret")
    report = folder.load(text)
    assert changed(report) == [("cluster", "shop", ["admin_password"]), ("instance", "shop-2", ["role"])]
    entries = AuditEntry.objects.filter(action__endswith=".changed").order_by("pk")
    assert [entry.detail for entry in entries] == [
        {"via": "fleet file", "admin_password": "changed"},
        {"via": "fleet file", "role": "replica → backup"},
    ]
    everything = str(list(AuditEntry.objects.values()))
    assert not any(secret in everything for secret in (*SECRETS, "new-s3cret"))


def test_import_encrypts_secrets_in_the_column(folder):
    key = "".join(f"        {line}\n" for line in private_key().splitlines())
    folder.load(folder.with_change(f"      key_file: {folder.key_file}\n", f"      key: |\n{key}"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT admin_password, replication_password FROM dbops_cluster")
        passwords = cursor.fetchone()
        cursor.execute("SELECT ssh_private_key FROM dbops_host WHERE name = 'db-1'")
        raw = (*passwords, *cursor.fetchone())
    assert all(value.startswith("gAAAA") for value in raw)
    assert not any(secret in value for value in raw for secret in SECRETS)
    assert Host.objects.get(name="db-1").ssh_private_key == private_key()


def test_import_reads_a_password_from_file_or_environment(folder, monkeypatch):
    (folder.path / "secret").write_text("from 'a' \"file\";\n")
    monkeypatch.setenv("DBOPS_TEST_REPL", "environment")
    text = folder.with_change('password: "admin-s3cret"', "password_file: secret")
    folder.load(text.replace('password: "repl-s3cret"', "password_env: DBOPS_TEST_REPL"))
    cluster = Cluster.objects.get()
    assert (cluster.admin_password, cluster.replication_password) == ("from 'a' \"file\";", "environment")


def test_import_keeps_secrets_and_objects_that_are_left_out(folder):
    folder.load()
    text = folder.text[: folder.text.index("clusters:")] + "clusters:\n  - name: shop\n    write_addresses: []\n"
    report = folder.load(text.replace(f'\n      host_key: "{host_key()}"', ""))
    assert changed(report) == [("cluster", "shop", ["write_addresses"])]
    assert Cluster.objects.get().admin_password == "admin-s3cret"
    assert Host.objects.get(name="db-1").host_key == host_key()
    assert Instance.objects.count() == 2


def test_replica_target_follows_the_file(folder):
    folder.load()
    with_target = folder.with_change("  - name: shop\n", "  - name: shop\n    wanted_replicas: 0\n")
    report = folder.load(with_target)
    assert changed(report) == [("cluster", "shop", ["wanted_replicas"])]
    assert Cluster.objects.get().wanted_replicas == 0
    assert "wanted_replicas: 0" in export_fleet()
    folder.load()
    assert Cluster.objects.get().wanted_replicas is None
    assert "wanted_replicas" not in export_fleet()


def test_restore_host_follows_the_file(folder):
    folder.load()
    folder.load(folder.with_change("  - name: shop\n", "  - name: shop\n    restore_test_host: db-2\n"))
    assert Cluster.objects.get().restore_test_host == "db-2"
    assert "restore_test_host: db-2" in export_fleet()
    folder.load()
    assert Cluster.objects.get().restore_test_host == ""


def test_redundancy_goal_follows_the_file(folder):
    folder.load()
    with_goal = folder.with_change("  - name: shop\n", "  - name: shop\n    redundancy_goal_seconds: 7200\n")
    report = folder.load(with_goal)
    assert changed(report) == [("cluster", "shop", ["redundancy_goal_seconds"])]
    assert Cluster.objects.get().redundancy_goal_seconds == 7200
    assert "redundancy_goal_seconds: 7200" in export_fleet()
    folder.load()
    assert Cluster.objects.get().redundancy_goal_seconds is None
    assert "redundancy_goal_seconds" not in export_fleet()


def test_replication_settings_follow_the_file(folder):
    folder.load()
    lines = (
        "group_suffix: '@r1'",
        "replication_tls: verify",
        "replication_tls_ca: /ca.pem",
        "replication_delay_seconds: 0",
    )
    folder.load(
        folder.with_change(
            "        role: replica\n", "".join(f"        {line}\n" for line in ("role: replica", *lines))
        )
    )
    instance = Instance.objects.get(name="shop-2")
    assert (instance.group_suffix, instance.replication_tls) == ("@r1", "verify")
    assert (instance.replication_tls_ca, instance.replication_delay_seconds) == ("/ca.pem", 0)
    exported = export_fleet()
    assert all(line in exported for line in lines)
    folder.load()
    instance.refresh_from_db()
    assert (instance.group_suffix, instance.replication_tls, instance.replication_delay_seconds) == ("", "", None)
    assert "replication_tls" not in export_fleet()


def test_import_requires_a_password_for_another_user(folder):
    folder.load()
    text = folder.with_change('{user: dbops, password: "admin-s3cret"}', "{user: other}")
    [error] = errors_of(folder, text)
    assert error.startswith("14: clusters[0].accounts.admin: ")
    assert "'other'" in error


def test_key_in_the_file_replaces_a_key_file(folder):
    folder.load()
    key = "".join(f"        {line}\n" for line in private_key(1).splitlines())
    folder.load(folder.with_change(f"      key_file: {folder.key_file}\n", f"      key: |\n{key}"))
    host = Host.objects.get(name="db-1")
    assert (host.ssh_key_file, host.ssh_private_key) == ("", private_key(1))
    folder.load()
    host.refresh_from_db()
    assert (host.ssh_key_file, host.ssh_private_key) == (str(folder.key_file), "")


def test_import_stores_a_relative_key_file_as_absolute(folder):
    folder.load(folder.text.replace(str(folder.key_file), "./id_ed25519"))
    assert Host.objects.get(name="db-1").ssh_key_file == str(folder.key_file)


def test_import_refuses_a_changed_host_key_unless_requested(folder):
    folder.load()
    text = folder.with_change(host_key(), host_key(1))
    [error] = errors_of(folder, text)
    assert error.startswith("7: hosts[0].ssh.host_key: ")
    assert re.search(r"'db-1'.*\bSHA256:", error)
    assert "--replace-host-keys" in error
    assert Host.objects.get(name="db-1").host_key == host_key()
    folder.load(text, replace_host_keys=True, actor="someone else")
    host = Host.objects.get(name="db-1")
    assert (host.host_key, host.host_key_accepted_by) == (host_key(1), "someone else")


def test_import_ignores_a_comment_after_a_host_key(folder):
    folder.load()
    assert folder.load(folder.with_change(host_key(), host_key() + " root@db-1")).count("unchanged") == 5


def test_import_swaps_hosts_and_roles_in_one_file(folder):
    folder.load()
    text = (
        folder.text.replace("host: db-1", "host: X")
        .replace("host: db-2", "host: db-1")
        .replace("host: X", "host: db-2")
    )
    text = (
        text.replace("role: primary", "role: X")
        .replace("role: replica", "role: primary")
        .replace("role: X", "role: replica")
    )
    assert folder.load(text).count("changed") == 2
    rows = Instance.objects.order_by("name").values_list("role", "host__name", "address", "datadir")
    assert list(rows) == [
        ("replica", "db-2", "192.0.2.2", "/var/lib/mysql"),
        ("primary", "db-1", "192.0.2.1", "/var/lib/mysql"),
    ]
    assert folder.load(text).count("unchanged") == 5


def test_import_validates_against_stored_rows(folder):
    folder.load()
    text = folder.text[folder.text.index("clusters:") :].replace("shop-1", "shop-3").replace("shop-2", "shop-4")
    found = errors_of(folder, "version: 1\n" + text)
    assert len(found) == 5
    role, datadir = ("10: clusters[0].instances[0].role: ", "12: clusters[0].instances[0].datadir: ")
    assert any(error.startswith(role) and names(error, "shop", "shop-1") for error in found)
    assert any(error.startswith(datadir) and names(error, "db-1", "shop-1") for error in found)


def test_import_forgets_facts_of_another_address(folder):
    folder.load()
    InstanceState.objects.update(observed_at="2026-01-01T00:00Z", record={"x": 1})
    folder.load(folder.with_change("        role: primary", "        port: 3307\n        role: primary"))
    assert [state.record for state in InstanceState.objects.order_by("instance__name")] == [{}, {"x": 1}]


@pytest.mark.parametrize("member", ["target", "source"])
def test_import_refuses_to_change_an_instance_in_a_rebuild(folder, olga, member):
    folder.load()
    one, two = Instance.objects.order_by("name")
    given = {"target": two, "source": one} if member == "target" else {"target": one, "source": two}
    rebuild = make_rebuild(**given, requested_by=olga, status="queued")
    found = errors_of(folder, folder.with_change("role: replica", "role: backup"))
    [error] = found
    assert error.startswith("23: clusters[0].instances[1].role: ")
    assert names(error.partition(".role: ")[2], f"rebuild {rebuild.pk}", "shop-2", "role")
    [found] = errors_of(folder, folder.with_change("{address: 192.0.2.2,", "{address: 192.0.2.7,"))[:1]
    assert names(found, f"rebuild {rebuild.pk}", "ssh_address")
    # Fields that do not move the machine may change during a rebuild.
    assert folder.load(folder.with_change("/srv/shop/start --now", "/srv/shop/start")).count("changed") == 1


@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.LOST])
def test_import_refuses_to_change_hosts_of_a_running_restore_test(folder, status):
    """Its way from the one to the other would be closed at the new place, and left open at the old one."""
    folder.load()
    one, two = Instance.objects.order_by("name")
    restore_test = ended_restore_test(
        made(make_schedule(two, is_enabled=False)), status, host=one.host, finished_at=None
    )
    for host, change in (
        ("db-1", ("address: 192.0.2.1\n", "address: 192.0.2.7\n")),
        ("db-2", ("address: 192.0.2.2, key", "address: 192.0.2.7, key")),
    ):
        found = " ".join(errors_of(folder, folder.with_change(*change)))
        assert names(found, f"restore test {restore_test.pk}", host, "ssh_address")
    moved = folder.with_change("role: replica\n        host: db-2", "role: replica\n        host: db-1")
    assert any(names(error, f"restore test {restore_test.pk}", "shop-2", "host") for error in errors_of(folder, moved))
    restore_test.status = RunStatus.SUCCEEDED
    restore_test.save()
    assert folder.load(folder.with_change("/srv/shop/start --now", "/srv/shop/start")).count("changed") == 1


@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.LOST])
def test_import_refuses_to_change_the_host_of_a_running_backup(folder, status):
    folder.load()
    two = Instance.objects.get(name="shop-2")
    run = make_run(make_schedule(two, is_enabled=False), status)
    moved = folder.with_change("role: replica\n        host: db-2", "role: replica\n        host: db-1")
    assert any(names(error, f"backup run {run.pk}", "shop-2", "address", "host") for error in errors_of(folder, moved))
    for change, frozen in (
        ("ssh: {address: 192.0.2.7, key", "ssh_address"),
        ("work_dir: /srv/dbops\n    ssh: {address: 192.0.2.2, key", "work_dir"),
    ):
        [found, *_] = errors_of(folder, folder.with_change("ssh: {address: 192.0.2.2, key", change))
        assert names(found, f"backup run {run.pk}", frozen)
    assert folder.load(folder.with_change("role: replica", "role: backup")).count("changed") == 1
    BackupRun.objects.update(origin=RunOrigin.OBSERVED)  # of others we hold nothing on the host
    assert folder.load(folder.with_change("{address: 192.0.2.2,", "{address: 192.0.2.7,")).count("changed") >= 1


def test_database_refuses_a_second_primary(folder):
    folder.load()
    with pytest.raises(IntegrityError), transaction.atomic():
        Instance.objects.filter(name="shop-2").update(role="primary")


def test_export_can_be_imported_and_has_no_secret(folder):
    key = "".join(f"        {line}\n" for line in private_key().splitlines())
    folder.load(folder.with_change(f"      key_file: {folder.key_file}\n", f"      key: |\n{key}"))
    before = [list(model.objects.order_by("pk").values()) for model in (Host, Cluster, Instance)]
    text = export_fleet()
    assert not any(secret in text for secret in SECRETS)
    assert "gAAAA" not in text
    assert folder.load(text).count("unchanged") == 5
    assert folder.load(text, base_dir=None).count("unchanged") == 5
    assert [list(model.objects.order_by("pk").values()) for model in (Host, Cluster, Instance)] == before
    assert export_fleet() == text


def test_import_of_an_export_names_missing_secrets(folder):
    folder.load()
    text = export_fleet()
    Instance.objects.all().delete()
    Cluster.objects.all().delete()
    found = errors_of(folder, text)
    assert len(found) == 2
    assert [error.split(": ")[1].rpartition(".")[2] for error in found] == ["admin", "replication"]


OWN = "        accounts:\n          admin: {user: dbops_2, password: own-s3cret}\n          backup: {user: root, socket: true}\n"


def test_accounts_of_an_instance_are_kept_and_exported(folder):
    folder.load()
    text = folder.with_change("        role: replica\n", f"        role: replica\n{OWN}")
    assert changed(folder.load(text)) == [
        ("instance", "shop-2", ["admin_password", "admin_user", "backup_user"]),
    ]
    instance = Instance.objects.get(name="shop-2")
    assert (instance.admin_user, instance.admin_password) == ("dbops_2", "own-s3cret")
    assert (instance.backup_user, instance.backup_password, instance.local_user) == ("root", "", "")
    exported = export_fleet()
    assert "own-s3cret" not in exported
    assert folder.load(exported).count("changed") == 0
    assert folder.load().count("changed") == 0, "omitted accounts keep their stored value"


@pytest.mark.parametrize(
    "accounts",
    [
        "{admin: {user: dbops, socket: true}}",
        "{local: {user: root}}",
        "{local: {user: root, socket: true, password: x}}",
        "{local: {user: root, socket: 1}}",
        "{backup: {socket: true}}",
    ],
)
def test_accounts_without_a_way_to_log_in_are_refused(folder, accounts):
    text = folder.with_change("        role: replica\n", f"        role: replica\n        accounts: {accounts}\n")
    assert all("accounts" in error for error in errors_of(folder, text))


def test_cluster_can_log_in_by_its_sockets(folder):
    folder.load()
    text = folder.with_change("    accounts:\n", "    accounts:\n      local: {user: root, socket: true}\n")
    assert changed(folder.load(text)) == [("cluster", "shop", ["local_user"])]
    assert "local:" in export_fleet()
    text = text.replace("{user: root, socket: true}", "{user: root, password: now-s3cret}")
    assert changed(folder.load(text)) == [("cluster", "shop", ["local_password"])]
    assert Cluster.objects.get().local_password == "now-s3cret"
