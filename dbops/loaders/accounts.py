"""Which account logs in to an instance: its own, else that of its cluster."""

from collections.abc import Iterable

from dbops.engine.errors import DbopsError
from dbops.engine.hosts.local_login import Account
from dbops.models import Cluster, Instance
from dbops.models.fleet import PASSWORDS


def account_of(instance: Instance, kind: str) -> Account:
    """Return one account; without a user if neither has it."""
    owner: Cluster | Instance = instance if getattr(instance, f"{kind}_user") else instance.cluster
    is_shared = owner is not instance
    return Account(getattr(owner, f"{kind}_user"), getattr(owner, f"{kind}_password"), is_shared)


def local_account_of(instance: Instance) -> Account:
    """Return the dashboard's account on the server's socket: of the instance or cluster, else as over the network."""
    local = account_of(instance, "local")
    return local if local.user else account_of(instance, "admin")


def shared_logins(instance: Instance, others: Iterable[Instance]) -> tuple[str, ...]:
    """Return the users whose password is sent to this instance's socket and opens an instance on another host of the cluster."""
    try:
        return _shared_logins(instance, others)
    except DbopsError:  # a secret that the keys cannot decrypt, or Vault does not give; a plan must still be shown
        return ()


def _shared_logins(instance: Instance, others: Iterable[Instance]) -> tuple[str, ...]:
    elsewhere = [one for one in others if one.cluster_id == instance.cluster_id and one.host_id != instance.host_id]
    found = {}
    for account in (local_account_of(instance), account_of(instance, "backup")):
        if account.password and any(account in _logins(one) for one in elsewhere):
            found[account.user] = account
    return tuple(found)


def secrets_of(cluster: Cluster) -> list[str]:
    """Return every password of a cluster and its instances, which must not appear in stored text."""
    rows: list[Cluster | Instance] = [cluster, *cluster.instances.all()]
    return [getattr(row, name) for row in rows for name in PASSWORDS]


def _logins(instance: Instance) -> tuple[Account, ...]:
    return (account_of(instance, "admin"), local_account_of(instance), account_of(instance, "backup"))
