"""Errors in a fleet file have line and path; a file with errors changes nothing."""

import pytest

from dbops.fleetfile.document import MAXIMUM_ERRORS, MAXIMUM_NODES
from dbops.models import AuditEntry, Cluster, Host, Instance
from dbops.operations.fleet import FleetFileErrors
from tests.app.fleetfile.builders import host_key

pytestmark = pytest.mark.django_db

GOAL = "  - name: shop\n    redundancy_goal_seconds: "
# what is changed in the file, the line, the place, what the message names
CASES = {
    "unknown key": ("role: primary", "rolle: primary", 18, "clusters[0].instances[0]", "'role'"),
    "unknown key without a near one": ("name: db-2", "zzz: 1\n    name: db-2", 8, "hosts[1]", "zzz"),
    "key twice": ("role: primary", "role: primary\n        role: replica", 19, "clusters[0].instances[0]", "18"),
    "merge key": ("name: db-2", "<<: {}\n    name: db-2", 8, "hosts[1]", "<<"),
    "alias": ("name: db-2", "name: &a db-2\n    work_dir: *a", 9, "", "*a"),
    "number for text": ("user: dbops", "user: 12", 14, "clusters[0].accounts.admin.user", ""),
    "text for a number": ("address: 192.0.2.2,", "port: ssh, address: 192.0.2.2,", 9, "hosts[1].ssh.port", ""),
    "leading zero": ("address: 192.0.2.2,", "port: 022, address: 192.0.2.2,", 9, "hosts[1].ssh.port", ""),
    "text for true": ("name: db-2", "sudo: 'yes'\n    name: db-2", 8, "hosts[1].sudo", ""),
    "nothing": ("role: primary", "role:", 18, "clusters[0].instances[0].role", ""),
    "mapping for a list": ('["db.shop.example:3306"]', "{}", 12, "clusters[0].write_addresses", ""),
    "list for a mapping": ("{systemd_unit: mariadb}", "[]", 21, "clusters[0].instances[0].service", ""),
    "text for a mapping": ("service: {systemd_unit: mariadb}", "service: mariadb", 21, "clusters[0].instances[0].service", ""),
    "python object": ("user: dbops", "user: !!python/name:os.system x", 14, "clusters[0].accounts.admin.user", "python"),
    "version": ("version: 1", "version: 2", 1, "version", "1"),
    "no version": ("version: 1\n", "\n", 1, "", "'version: 1'"),
    "missing": ("        role: primary\n", "", 17, "clusters[0].instances[0]", "'role'"),
    "no ssh": ("    ssh: {address: 192.0.2.2, key_file: KEYFILE}\n", "", 8, "hosts[1]", "'ssh'"),
    "no key": (", key_file: KEYFILE}", "}", 9, "hosts[1].ssh.key_file", ""),
    "role": ("role: primary", "role: primery", 18, "clusters[0].instances[0].role", "'primary'"),
    "quote in a name": ("name: shop-1", "name: \"shop'1\"", 17, "clusters[0].instances[0].name", ""),
    "semicolon in a name": ("name: shop-1", 'name: "shop;1"', 17, "clusters[0].instances[0].name", ""),
    "newline in a name": ("name: shop-1", 'name: "shop\\n1"', 17, "clusters[0].instances[0].name", ""),
    "quote in an account": ("user: dbops", 'user: "db\'ops"', 14, "clusters[0].accounts.admin.user", ""),
    "semicolon in an account": ("user: dbops", 'user: "db;ops"', 14, "clusters[0].accounts.admin.user", ""),
    "newline in an account": ("user: dbops", 'user: "db\\nops"', 14, "clusters[0].accounts.admin.user", ""),
    "newline in a unit": ("unit: mariadb", 'unit: "a\\nb"', 21, "clusters[0].instances[0].service.systemd_unit", ""),
    "semicolon in a unit": ("unit: mariadb", 'unit: "a; b"', 21, "clusters[0].instances[0].service.systemd_unit", ""),
    "port": ("address: 192.0.2.2,", "port: 65536, address: 192.0.2.2,", 9, "hosts[1].ssh.port", "65535"),
    "address": ("address: 192.0.2.2,", "address: 'a b', ", 9, "hosts[1].ssh.address", ""),
    "relative path": ("datadir: /var/lib/mysql", "datadir: mysql", 20, "clusters[0].instances[0].datadir", ""),
    "path with dots": ("datadir: /var/lib/mysql", "datadir: /a/../b", 20, "clusters[0].instances[0].datadir", "/b"),
    "path with a slash": ("datadir: /var/lib/mysql", "datadir: /a/", 20, "clusters[0].instances[0].datadir", "/a"),
    "system directory": ("datadir: /var/lib/mysql", "datadir: /var/lib", 20, "clusters[0].instances[0].datadir", "/var/lib"),
    "write address": ("db.shop.example:3306", "db shop", 12, "clusters[0].write_addresses[0]", "db shop"),
    "write address twice": ('["db.shop.example:3306"]', "[a, a]", 12, "clusters[0].write_addresses", ""),
    "command of a relative path": ("start: /srv", "start: srv", 27, "clusters[0].instances[1].service.start", ""),
    "command that cannot be split": ("--now", "'now", 27, "clusters[0].instances[1].service.start", ""),
    "unknown restore test host": (
        "  - name: shop\n",
        "  - name: shop\n    restore_test_host: db-99\n",
        12,
        "clusters[0].restore_test_host",
        "'db-99'",
    ),
    "restore test host that is not in the inventory": (
        "clusters:\n  - name: shop\n",
        "  - name: db-3\n    ssh: {address: 192.0.2.3, user: dbops, key_file: KEYFILE}\n"
        "clusters:\n  - name: shop\n    restore_test_host: db-3\n",
        14,
        "clusters[0].restore_test_host",
        "'db-3'",
    ),
    "target": ("  - name: shop\n", "  - name: shop\n    wanted_replicas: -1\n", 12, "clusters[0].wanted_replicas", "1000"),
    "goal": ("  - name: shop\n", f"{GOAL}59\n", 12, "clusters[0].redundancy_goal_seconds", "60"),
    "goal with seconds": ("  - name: shop\n", f"{GOAL}90\n", 12, "clusters[0].redundancy_goal_seconds", ""),
    "no stop": ("          stop: /srv/shop/stop\n", "", 26, "clusters[0].instances[1].service", ""),
    "unit and command": ("unit: mariadb", "unit: a, start: /x", 21, "clusters[0].instances[0].service", ""),
    "two keys": ("key_file: KEYFILE\n", "key_file: KEYFILE\n      key: x\n", 6, "hosts[0].ssh.key_file", ""),
    "no key in the text": ("key_file: KEYFILE\n", "key: x\n", 6, "hosts[0].ssh.key", ""),
    "no key file": ("key_file: KEYFILE\n", "key_file: /no/such\n", 6, "hosts[0].ssh.key_file", "/no/such"),
    "host key": ('"HOSTKEY"', '"ssh-ed25519 AAAA"', 7, "hosts[0].ssh.host_key", ""),
    "host key of known_hosts": ('"HOSTKEY"', '"db-1 HOSTKEY"', 7, "hosts[0].ssh.host_key", ""),
    "empty host key": ('"HOSTKEY"', '""', 7, "hosts[0].ssh.host_key", ""),
    "no host": ("host: db-1", "host: db-9", 19, "clusters[0].instances[0].host", "'db-9'"),
    "host twice": ("name: db-2", "name: db-1", 8, "hosts[1].name", "'db-1' (line 3)"),
    "host twice but for case": ("name: db-2", "name: DB-1", 8, "hosts[1].name", ""),
    "machine twice": ("address: 192.0.2.2,", "address: 192.0.2.1,", 9, "hosts[1].ssh.address", "'db-1' (line 3)"),
    "instance twice": ("name: shop-2", "name: shop-1", 22, "clusters[0].instances[1].name", "'shop-1' (line 17)"),
    "two primaries": ("role: replica", "role: primary", 23, "clusters[0].instances[1].role", "'shop-1' (line 17)"),
    "address twice": ("role: replica", "role: replica\n        address: 192.0.2.1", 24, "clusters[0].instances[1].address", "'shop-1'"),
    "directory twice": ("host: db-2", "host: db-1", 25, "clusters[0].instances[1].datadir", "'shop-1'"),
    "directory in another": (
        *("host: db-2\n        datadir: /var/lib/mysql", "host: db-1\n        port: 1\n        datadir: /var/lib/mysql/2"),
        *(26, "clusters[0].instances[1].datadir", "'shop-1'"),
    ),
    "work directory in the data": (
        *("name: db-2", "work_dir: /var/lib/mysql/run\n    name: db-2"),
        *(26, "clusters[0].instances[1].datadir", ""),
    ),
    "two passwords": ("{user: dbops,", "{user: dbops, password_env: X,", 14, "clusters[0].accounts.admin.password_env", ""),
    "no variable": ('password: "admin-s3cret"', "password_env: NO_SUCH", 14, "clusters[0].accounts.admin.password_env", "'NO_SUCH'"),
    "no password file": ('password: "admin-s3cret"', "password_file: x", 14, "clusters[0].accounts.admin.password_file", ""),
    "no password": (', password: "admin-s3cret"', "", 14, "clusters[0].accounts.admin", ""),
    "empty password": ('"admin-s3cret"', '""', 14, "clusters[0].accounts.admin.password", ""),
    "newline in a password": ('"admin-s3cret"', '"a\\nb"', 14, "clusters[0].accounts.admin.password", ""),
    "not YAML": ("name: db-2", "name: [db-2", 9, "", ""),
    "control character": ("name: db-2", "name: \x07", 8, "", ""),
    "tab": ("    ssh: {", "\tssh: {", 9, "", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_load_errors_have_line_and_path(folder, case):
    old, new, line, path, named = CASES[case]
    old, new = (part.replace("KEYFILE", str(folder.key_file)).replace("HOSTKEY", host_key()) for part in (old, new))
    with pytest.raises(FleetFileErrors) as caught:
        folder.load(folder.with_change(old, new))
    found = [(error.line, error.path, error.text) for error in caught.value.errors]
    assert any(seen[:2] == (line, path) and named in seen[2] for seen in found), found
    assert [model.objects.count() for model in (Host, Cluster, Instance)] == [0, 0, 0]
    assert not AuditEntry.objects.exists()


def test_load_reports_every_error_at_once(folder):
    text = (
        folder.text.replace("role: primary", "role: king")
        .replace("192.0.2.2", "a b")
        .replace("db-1\n        d", "db-9\n        d")
    )
    with pytest.raises(FleetFileErrors) as caught:
        folder.load(text)
    assert [error.line for error in caught.value.errors] == [9, 18, 19]
    assert str(caught.value.errors[1]).startswith("18: clusters[0].instances[0].role: 'king'")


@pytest.mark.parametrize(
    "text", ["", "[]", "fleet", "version: 1\n---\nversion: 1", "{" * 5000, "a: " + "[" * 50 + "]" * 50]
)
def test_load_refuses_text_that_is_not_a_mapping(folder, text):
    with pytest.raises(FleetFileErrors):
        folder.load(text)


def test_load_refuses_deep_nesting_before_building_it(folder):
    depth = 5000
    with pytest.raises(FleetFileErrors) as caught:
        folder.load("version: 1\nhosts: " + "[" * depth + "]" * depth)
    assert [(error.line, error.path) for error in caught.value.errors] == [(2, "")]


def test_load_refuses_any_size_quickly(folder):
    with pytest.raises(FleetFileErrors) as caught:
        folder.load("#" * 2_000_001)
    [error] = caught.value.errors
    assert (error.line, "2,000,000" in error.text) == (1, True)


def test_load_errors_never_show_a_secret(folder):
    (folder.path / "secret").write_text("first-line-secret\nsecond\n")
    text = folder.with_change('password: "admin-s3cret"', "password_file: secret")
    text = text.replace(f"key_file: {folder.key_file}\n", f"key_file: {folder.path}/secret\n", 1)
    with pytest.raises(FleetFileErrors) as caught:
        folder.load(text)
    found = " ".join(str(error) for error in caught.value.errors)
    assert len(caught.value.errors) == 2
    assert "first-line-secret" not in found
    assert "repl-s3cret" not in found


def test_browser_import_cannot_read_local_files(folder, monkeypatch):
    monkeypatch.setenv("DBOPS_SHOP", "x")
    text = folder.with_change('password: "admin-s3cret"', "password_env: DBOPS_SHOP")
    text = text.replace('password: "repl-s3cret"', "password_file: /etc/hostname")
    with pytest.raises(FleetFileErrors) as caught:
        folder.load(text, base_dir=None)
    assert [error.line for error in caught.value.errors] == [14, 15]
    assert all("`manage.py fleet import`" in error.text for error in caught.value.errors)


def test_file_with_endless_errors_is_left_at_a_limit(folder):
    with pytest.raises(FleetFileErrors) as caught:
        folder.load("version: 1\nhosts:\n" + "- {}\n" * 150_000)
    assert len(caught.value.errors) == MAXIMUM_ERRORS + 1


def test_file_with_too_many_values_is_refused(folder):
    with pytest.raises(FleetFileErrors) as caught:
        folder.load("version: 1\nhosts: [" + "a," * MAXIMUM_NODES + "]")
    assert len(caught.value.errors) == 1
