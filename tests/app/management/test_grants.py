"""Statements for the accounts of a cluster. What they grant is tried on real servers: ``tests/drivers/test_series.py``."""

import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.account_statements import OPTIONS, account_statements, options_of
from dbops.engine.flavors.privileges import missing_for_rebuild, needed_for_rebuild
from dbops.models import Cluster, Instance, InstanceState
from tests.app import rows

pytestmark = pytest.mark.django_db

SERVERS = (
    "MariaDB 10.4.34",
    "MariaDB 10.11.6",
    "MariaDB 11.8.2",
    "MySQL 5.7.44",
    "MySQL 8.0.20",
    "MySQL 8.0.36",
    "MySQL 9.7.0",
)


def printed(*words: str) -> list[str]:
    out = StringIO()
    call_command("grants", *words, stdout=out)
    return out.getvalue().splitlines()


def granted(lines: list[str], account: str) -> set[str]:
    """Return the privileges of an account on all schemas."""
    found = [re.fullmatch(r"GRANT (.+) ON \*\.\* TO (.+);", line) for line in lines]
    return {name for match in found if match and account in match[2] for name in match[1].split(", ")}


@pytest.fixture
def replica() -> Instance:
    instance: Instance = rows.make_fleet()["replica-1"]
    passwords = {f"{kind}_password": f"secret {kind}" for kind in ("admin", "replication", "backup")}
    Cluster.objects.update(admin_user="o_dash", replication_user="r_e", backup_user="b_k")
    cluster = Cluster.objects.get(pk=instance.cluster_id)
    for name, value in passwords.items():
        setattr(cluster, name, value)
    cluster.save()
    facts = rows.facts_of("replica-1", timezone.now())
    InstanceState.objects.filter(instance=instance).update(**InstanceState.columns(facts))
    return instance


@pytest.mark.parametrize("server", SERVERS)
def test_dashboard_has_what_a_rebuild_needs_and_backup_account_no_more_than_it(server: str) -> None:
    lines = printed("--server", server)
    product, _, version = server.rpartition(" ")
    flavor = flavor_for(version, product)
    for place in ("'DASHBOARD'", "'localhost'"):
        mine = granted(lines, f"'dbops'@{place}")
        assert all(mine.intersection(names) for names in needed_for_rebuild(flavor))
        grants = [f"GRANT {', '.join(sorted(mine))} ON *.* TO `dbops`@`x`"]
        assert missing_for_rebuild(flavor, grants) == ()
    assert granted(lines, "'repl'@'%'") == {"REPLICATION SLAVE"}
    assert granted(lines, "'backup'@'localhost'").isdisjoint({"SELECT", "SUPER", "ALL PRIVILEGES"})
    assert not [line for line in lines if "ALL PRIVILEGES" in line or "GRANT OPTION" in line]


@pytest.mark.parametrize("server", SERVERS)
def test_each_option_adds_statements(server: str) -> None:
    product, _, version = server.rpartition(" ")
    flavor, plain = flavor_for(version, product), printed("--server", server)
    for option in options_of(flavor):
        more = printed("--server", server, "--for", option)
        assert set(plain) < set(more), option
    for option in set(OPTIONS) - set(options_of(flavor)):
        with pytest.raises(CommandError):
            printed("--server", server, "--for", option)


def test_statement_of_a_later_version_is_left_out() -> None:
    def has(version: str) -> bool:
        return any("keyring_component_status" in one.sql for one in account_statements(flavor_for(version, "mysql")))

    assert (has("8.0.23"), has("8.0.24")) == (False, True)


def test_accounts_of_the_inventory_are_used_without_their_passwords(replica: Instance) -> None:
    lines = printed("replica-1", "--dashboard", "10.0.0.1")
    text = "\n".join(lines)
    assert "secret" not in text
    assert "'dbops'" not in text
    assert "DASHBOARD" not in text
    created = [line.split()[2] for line in lines if line.startswith("CREATE USER")]
    assert created == ["'o_dash'@'10.0.0.1'", "'o_dash'@'localhost'", "'b_k'@'localhost'", "'r_e'@'%'"]


def test_account_without_a_password_is_left_out(replica: Instance) -> None:
    cluster = Cluster.objects.get(pk=replica.cluster_id)
    cluster.local_user, cluster.backup_user, cluster.backup_password = "root", "mysql", ""
    cluster.save()
    lines = printed("replica-1")
    created = [line.split()[2] for line in lines if line.startswith("CREATE USER")]
    assert created == ["'o_dash'@'DASHBOARD'", "'r_e'@'%'"]
    assert not [line for line in lines if "localhost" in line]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("unknown",),
        ("replica-1", "--server", "MySQL 8.0.36"),
        ("--server", "MySQL"),
        ("--server", "MySQL 5.5.1"),
        ("--server", "MySQL 8.0.36", "--dashboard", "x'; DROP"),
    ],
)
def test_nonsense_is_refused(replica: Instance, words: Any) -> None:
    with pytest.raises(CommandError):
        printed(*words)


def test_server_that_was_never_probed_is_refused(replica: Instance) -> None:
    InstanceState.objects.all().delete()
    with pytest.raises(CommandError):
        printed("replica-1")
