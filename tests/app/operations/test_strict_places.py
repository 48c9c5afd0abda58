"""One operator alone gets no rebuild of an instance whose cluster requires approval, whatever they do to the inventory."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dbops.engine.states import Approval
from dbops.models import AuditEntry, Cluster, Host, Instance, InstanceState, Rebuild, StrictPlace
from dbops.operations.fleet import accept_host_key, delete, import_fleet, save_cluster, save_host, save_instance
from dbops.operations.rebuilds import plan_rebuild, request_rebuild
from dbops.operations.strict_places import KEPT, approval_need
from tests.app import rows
from tests.app.fleetfile.builders import host_key, private_key

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]

#: what an operator could do so that the data directory of replica-1 belongs to a cluster without approval
Trick = Callable[[User, Instance, Cluster], Instance]


@pytest.fixture
def replica() -> Instance:
    """Replica-1 of a cluster that requires approval; each host has a key of its own."""
    found = rows.make_fleet()["replica-1"]
    for number, host in enumerate(Host.objects.all()):
        Host.objects.filter(pk=host.pk).update(host_key=host_key(number), ssh_private_key=private_key())
    Cluster.objects.update(needs_approval=True)
    return Instance.objects.get(pk=found.pk)


def copy_of(actor: User, replica: Instance, cluster: Cluster, host: Host) -> Instance:
    same = ("datadir", "port", "role", "systemd_unit")
    values = {name: getattr(replica, name) for name in same} | {"address": "10.9.9.9", "cluster": cluster, "host": host}
    return save_instance(actor=actor, instance=None, values={"name": "mine", **values})


def move(actor: User, replica: Instance, cluster: Cluster) -> Instance:
    return save_instance(actor=actor, instance=replica, values={"cluster": cluster})


def move_by_file(actor: User, replica: Instance, cluster: Cluster) -> Instance:
    keys = f"name: replica-1, host: {replica.host.name}, role: replica, address: {replica.address}, datadir: /var/lib/mysql"
    text = f"version: 1\nhosts: []\nclusters:\n  - name: own\n    instances: [{{{keys}, service: {{systemd_unit: mariadb}}}}]\n"
    import_fleet(actor=actor.get_username(), text=text, base_dir=None)
    return Instance.objects.get(name="replica-1")


def remove_and_add(actor: User, replica: Instance, cluster: Cluster) -> Instance:
    host = replica.host
    delete(actor=actor, row=Instance.objects.get(pk=replica.pk))
    return copy_of(actor, replica, cluster, host)


def another_host_entry(actor: User, replica: Instance, cluster: Cluster) -> Instance:
    """Add the machine a second time, under another address, with its instance."""
    values = {"name": "alias", "ssh_address": "alias.example", "ssh_private_key": private_key()}
    host = save_host(actor=actor, host=None, values=values)
    accept_host_key(actor=actor, host=host, host_key=replica.host.host_key)
    return copy_of(actor, replica, cluster, host)


def blur_then_add(actor: User, replica: Instance, cluster: Cluster) -> Instance:
    """Let the entry name another directory and port, and add the real one."""
    save_instance(actor=actor, instance=replica, values={"datadir": "/srv/none", "port": 3399})
    replica.port = 3306
    return another_host_entry(actor, replica, cluster)


def blur_the_key_then_add(actor: User, replica: Instance, cluster: Cluster) -> Instance:
    """Let the entry of the host have another key, and add the machine with its real one."""
    accept_host_key(actor=actor, host=replica.host, host_key=host_key(9), replace=True)
    replica.host.host_key = host_key([item.pk for item in Host.objects.all()].index(replica.host_id))
    return another_host_entry(actor, replica, cluster)


def another_key_of_the_machine(actor: User, replica: Instance, cluster: Cluster) -> Instance:
    """Add the machine a second time, with another of its host keys; a probe finds the same machine."""
    replica.host.host_key = host_key(11)
    found = another_host_entry(actor, replica, cluster)
    InstanceState.objects.filter(instance=found).delete()
    record = InstanceState.objects.get(instance__name="replica-1").record
    InstanceState.objects.create(instance=found, record=record, probe_due_at=timezone.now())
    return found


def move_then_another_key(actor: User, replica: Instance, cluster: Cluster) -> Instance:
    """Move the instance, then pin another host key of the machine."""
    moved = move(actor, replica, cluster)
    accept_host_key(actor=actor, host=replica.host, host_key=host_key(11), replace=True)
    return moved


@pytest.mark.parametrize(
    "trick",
    [
        move,
        move_by_file,
        remove_and_add,
        another_host_entry,
        blur_then_add,
        blur_the_key_then_add,
        another_key_of_the_machine,
        move_then_another_key,
    ],
)
def test_rebuild_needs_approval_after(trick: Trick, replica: Instance) -> None:
    olga = rows.operator()
    own = save_cluster(actor=olga, cluster=None, values={"name": "own"})
    found = trick(olga, replica, own)
    need = approval_need(Instance.objects.get(pk=found.pk))
    assert need is not None
    assert need.cluster == "shop"
    if trick not in (another_host_entry, another_key_of_the_machine):
        assert AuditEntry.objects.filter(action="override.left_approval", actor=olga.username).count() == 1


def test_moved_and_returned_instance_waits_for_approval_all_the_time(replica: Instance) -> None:
    olga, shop = rows.operator(), replica.cluster
    own = save_cluster(actor=olga, cluster=None, values={"name": "own"})
    for name in ("backup-1", "primary-1", "replica-1"):
        move(olga, Instance.objects.get(name=name), own)
    target, source = Instance.objects.get(name="replica-1"), Instance.objects.get(name="backup-1")
    client = Client()
    client.force_login(olga)
    assert client.get("/instances/replica-1/rebuild/").context["approval"].cluster == shop.name
    rebuild = request_rebuild(
        actor=olga,
        target=target,
        source=source,
        typed_name=target.name,
        reason="the disk",
        fingerprint=plan_rebuild(target=target, source=source).fingerprint,
        request_key="one",
    )
    assert Rebuild.objects.get(pk=rebuild.pk).approval == Approval.WAITING


def test_need_ends_after_its_time_and_other_instances_have_none(replica: Instance) -> None:
    olga = rows.operator()
    own = save_cluster(actor=olga, cluster=None, values={"name": "own"})
    moved = move(olga, replica, own)
    place = StrictPlace.objects.latest("pk")
    assert abs(place.until - timezone.now() - KEPT) < timedelta(minutes=1)
    StrictPlace.objects.update(until=timezone.now())
    assert approval_need(Instance.objects.get(pk=moved.pk)) is None


def test_cluster_that_no_longer_requires_approval_frees_its_instances(replica: Instance) -> None:
    save_cluster(actor=rows.superuser(), cluster=replica.cluster, values={"needs_approval": False})
    assert not StrictPlace.objects.exists()
    assert approval_need(Instance.objects.get(pk=replica.pk)) is None
