"""Rows of a small fleet whose facts are those of the engine's tests: a replica that may be rebuilt."""

from dataclasses import replace
from datetime import datetime, timedelta

from django.contrib.auth.models import Group, User
from django.utils import timezone

from dbops.engine.facts.instance import InstanceFacts
from dbops.models import Cluster, Host, Instance, InstanceState, Rebuild
from dbops.operations.rebuilds import plan_rebuild, request_rebuild
from dbops.security.permissions import OPERATOR, VIEWER, make_groups
from dbops.worker import scheduler
from tests.engine import builders

NUMBERS = {"primary-1": 11, "backup-1": 12, "replica-1": 13, "replica-2": 14}
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8PLXkVmRI5QXBnUJ3rr3nXx1RYbSZ8N8S1pE3mYbXn"


def make_user(name: str, group: str | None) -> User:
    make_groups()
    user = User.objects.create_user(name, password="a password of some length")
    if group:
        user.groups.add(Group.objects.get(name=group))
    return user


def operator() -> User:
    return make_user("olga", OPERATOR)


def viewer() -> User:
    return make_user("victor", VIEWER)


def superuser() -> User:
    return User.objects.create_superuser("root", password="a password of some length")


def facts_of(name: str, now: datetime) -> InstanceFacts:
    number = NUMBERS[name]
    server = builders.primary_server() if name == "primary-1" else builders.server(number)
    return replace(builders.facts(number, server=server), observed_at=now - timedelta(seconds=2))


def make_fleet(*names: str) -> dict[str, Instance]:
    """Return instances by name; all are of the cluster ``shop``, healthy and freshly read."""
    cluster = Cluster.objects.create(
        name="shop",
        admin_user="dbops",
        admin_password="admin-secret",
        replication_user="repl",
        replication_password="repl-secret",
        backup_user="backup",
        backup_password="backup-secret",
    )
    return {name: make_instance(cluster, name) for name in names or ("primary-1", "backup-1", "replica-1")}


def make_instance(cluster: Cluster, name: str) -> Instance:
    number, now = NUMBERS[name], timezone.now()
    host = Host.objects.create(
        name=f"db-{number}", ssh_address=f"10.0.0.{number}", host_key=HOST_KEY, ssh_private_key="not a key"
    )
    instance = Instance.objects.create(
        name=name,
        cluster=cluster,
        host=host,
        role=name.partition("-")[0],
        address=f"10.0.0.{number}",
        systemd_unit="mariadb",
    )
    InstanceState.objects.create(instance=instance, probe_due_at=now, **InstanceState.columns(facts_of(name, now)))
    return instance


def started_rebuild() -> Rebuild:
    """Return a rebuild of replica-1 from backup-1 in a small fleet, requested by an operator and just started."""
    fleet = make_fleet()
    target, source = fleet["replica-1"], fleet["backup-1"]
    rebuild = request_rebuild(
        actor=operator(),
        target=target,
        source=source,
        typed_name=target.name,
        reason="for a test",
        fingerprint=plan_rebuild(target=target, source=source).fingerprint,
        request_key="one",
    )
    assert scheduler.start_what_can() == [rebuild.pk]
    return rebuild
