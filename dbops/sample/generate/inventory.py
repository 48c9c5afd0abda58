"""Create the sample's inventory: clusters, hosts, instances, schedules, accounts and facts."""

import base64
import random
from datetime import datetime, timedelta

from django.contrib.auth.models import Group, User

from dbops.engine.facts.instance import InstanceFacts
from dbops.lib.cron import next_due
from dbops.models import BackupSchedule, Cluster, Host, Instance, InstanceState
from dbops.sample.generate import clusters as plan
from dbops.sample.generate.facts import facts_of, with_lag
from dbops.sample.generate.story import LAG_SECONDS, LAGGING_NOW
from dbops.security.permissions import make_groups

LATE_AFTER_SECONDS = 1800
KEPT = 7
APPROVED = "billing"
#: Rebuild goals other than the default, in seconds.
GOALS = {"billing": 5 * 3600}


def make_people() -> dict[str, User]:
    """Create accounts without passwords, so that no one can log in with them."""
    make_groups()
    groups = {group.name: group for group in Group.objects.all()}
    people = {}
    for name, group in plan.PEOPLE.items():
        people[name] = user = User(username=name)
        user.set_unusable_password()
        user.save()
        user.groups.add(groups[group])
    return people


def make_fleet(dice: random.Random) -> dict[str, Instance]:
    """Create clusters, hosts and instances; return instances by name, each cluster's primary first."""
    rows = {
        item.name: Cluster(
            name=item.name,
            wanted_replicas=item.wanted,
            redundancy_goal_seconds=GOALS.get(item.name),
            **_accounts(),
            **_approval(item.name),
        )
        for item in plan.CLUSTERS
    }
    Cluster.objects.bulk_create(rows.values())
    wanted = [(rows[item.name], name, role) for item in plan.CLUSTERS for name, role in item.instances.items()]
    hosts = [_host(name, number, dice) for number, (_, name, _) in enumerate(wanted, 11)]
    Host.objects.bulk_create(hosts)
    instances = [
        Instance(
            name=name,
            cluster=cluster,
            host=host,
            role=role,
            address=host.ssh_address,
            systemd_unit="mysql" if _of(cluster.name).flavor == "mysql" else "mariadb",
        )
        for (cluster, name, role), host in zip(wanted, hosts, strict=True)
    ]
    return {item.name: item for item in Instance.objects.bulk_create(instances)}


def _of(name: str) -> plan.SampleCluster:
    return next(item for item in plan.CLUSTERS if item.name == name)


def _accounts() -> dict[str, str]:
    """Return account names without passwords; there are no servers to log in to."""
    return {"admin_user": "dbops", "replication_user": "repl", "backup_user": "dbops_backup"}


def _approval(name: str) -> dict[str, bool]:
    """Require approval of rebuilds for one cluster."""
    is_known = any(field.name == "needs_approval" for field in Cluster._meta.fields)
    return {"needs_approval": name == APPROVED} if is_known else {}


def _host(name: str, number: int, dice: random.Random) -> Host:
    wire = b"\0\0\0\x0bssh-ed25519\0\0\0 " + dice.randbytes(32)
    return Host(
        name=f"db-{name}",
        ssh_address=f"192.0.2.{number}",
        ssh_user="dbops",
        sudo=True,
        host_key=f"ssh-ed25519 {base64.b64encode(wire).decode()}",
        host_key_accepted_by="anna.keller",
    )


def facts_by_name(instances: dict[str, Instance], now: datetime) -> dict[str, InstanceFacts]:
    """Return the latest facts of each instance; all but one are healthy."""
    found = {}
    for cluster in plan.CLUSTERS:
        members = [instances[name] for name in cluster.instances]
        for number, instance in enumerate(members):
            facts = facts_of(cluster, members, instance, now - timedelta(seconds=1 + number * 2))
            found[instance.name] = with_lag(facts, LAG_SECONDS) if instance.name == LAGGING_NOW else facts
    return found


def make_states(instances: dict[str, Instance], facts: dict[str, InstanceFacts], now: datetime) -> None:
    InstanceState.objects.bulk_create(
        InstanceState(
            instance=instance,
            probe_due_at=now,
            host_read_since=now - timedelta(days=3),
            host_read_at=facts[name].observed_at,
            **InstanceState.columns(facts[name]),
        )
        for name, instance in instances.items()
    )


def make_schedules(instances: dict[str, Instance], now: datetime) -> dict[str, BackupSchedule]:
    rows = [
        BackupSchedule(
            name=item.name,
            instance=instances[item.instance],
            method=item.method,
            run_by=item.run_by,
            cron=item.cron,
            time_zone=item.zone,
            directory=f"/backup/{cluster.name}",
            keep_count=KEPT,
            expected_seconds=round(item.hours * 3600),
            late_after_seconds=LATE_AFTER_SECONDS,
            next_due_at=next_due(item.cron, item.zone, now),
        )
        for cluster in plan.CLUSTERS
        for item in cluster.schedules
    ]
    return {row.name: row for row in BackupSchedule.objects.bulk_create(rows)}
