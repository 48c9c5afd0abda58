"""Which account logs in where, and which password opens more than one host."""

import pytest

from dbops.loaders.accounts import account_of, local_account_of, secrets_of, shared_logins
from dbops.models import Cluster, Instance
from dbops.worker.connections import connect_to, open_database
from tests.app.factories import make_cluster, make_instance

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    cluster = make_cluster()
    for kind in ("admin", "replication", "backup"):
        setattr(cluster, f"{kind}_user", kind)
        setattr(cluster, f"{kind}_password", f"{kind} of all")
    cluster.save()
    return cluster


@pytest.fixture
def instances(cluster: Cluster) -> list[Instance]:
    return [make_instance(f"r{number}", cluster=cluster) for number in range(2)]


def pair(account) -> tuple[str, str]:
    return account.user, account.password


def test_account_of_the_instance_replaces_that_of_the_cluster(instances: list[Instance]) -> None:
    own, other = instances
    own.admin_user, own.admin_password = "dbops_r0", "of r0"
    own.save()
    assert pair(account_of(own, "admin")) == pair(local_account_of(own)) == ("dbops_r0", "of r0")
    assert pair(account_of(own, "backup")) == ("backup", "backup of all")
    assert pair(account_of(other, "admin")) == ("admin", "admin of all")
    assert (open_database(own).address.user, open_database(other).address.user) == ("dbops_r0", "admin")
    opened = connect_to(own.address, own.port, own.cluster, read_timeout_seconds=1)
    assert (opened.address.user, opened.address.password) == ("dbops_r0", "of r0")


def test_local_account_is_the_nearest_one(cluster: Cluster, instances: list[Instance]) -> None:
    cluster.local_user = "root"
    instances[0].cluster = instances[1].cluster = cluster
    assert pair(local_account_of(instances[0])) == ("root", "")
    instances[0].admin_user, instances[0].admin_password = "dbops_r0", "of r0"
    assert pair(local_account_of(instances[0])) == ("root", "")
    instances[0].local_user = "here"
    assert pair(local_account_of(instances[0])) == ("here", "")
    assert pair(account_of(instances[0], "admin")) == ("dbops_r0", "of r0")


def test_shared_logins_are_those_that_another_host_accepts(cluster: Cluster, instances: list[Instance]) -> None:
    first, second = instances
    first.cluster = second.cluster = cluster
    assert shared_logins(first, instances) == ("admin", "backup")
    assert shared_logins(first, [first]) == ()
    second.host = first.host
    assert shared_logins(first, instances) == ()
    second.host = make_instance("r2", cluster=cluster).host
    cluster.local_user, cluster.backup_password = "root", ""
    assert shared_logins(first, instances) == ()
    cluster.local_user = ""
    first.admin_user, first.admin_password = "admin", "of r0"
    assert shared_logins(first, instances) == ()
    second.admin_user, second.admin_password = "admin", "of r0"
    assert shared_logins(first, instances) == ("admin",)


def test_every_password_is_kept_out_of_stored_text(cluster: Cluster, instances: list[Instance]) -> None:
    instances[0].local_user, instances[0].local_password = "here", "of r0"
    instances[0].save()
    found = {secret for secret in secrets_of(cluster) if secret}
    assert found == {"admin of all", "replication of all", "backup of all", "of r0"}
