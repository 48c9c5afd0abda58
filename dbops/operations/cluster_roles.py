"""Give accounts roles on single clusters, and take them. Each change is in the audit log."""

from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append
from dbops.engine.access.roles import ON_CLUSTERS
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.models import Cluster, ClusterRole
from dbops.security.permissions import require_superuser


def give_role(*, actor: User, user: User, cluster: Cluster, role: str) -> bool:
    """Give an account a role on a cluster. Return whether it did not have it.

    Raises:
        Refused: ``access.denied``, or there is no such role on clusters (``account.invalid``).
    """
    require_superuser(actor, _operation(user, cluster))
    return set_role(actor=actor.get_username(), user=user, cluster=cluster, role=role, is_held=True)


def take_role(*, actor: User, user: User, cluster: Cluster, role: str) -> bool:
    """Take a role on a cluster from an account. Return whether it had it. Raises as ``give_role``."""
    require_superuser(actor, _operation(user, cluster))
    return set_role(actor=actor.get_username(), user=user, cluster=cluster, role=role, is_held=False)


def set_role(*, actor: str, user: User, cluster: Cluster, role: str, is_held: bool) -> bool:
    """Give or take a role. Return whether something changed.

    Args:
        actor: for the audit log; the caller has checked the permission.

    Raises:
        Refused: there is no such role on clusters (``account.invalid``).
    """
    if role not in ON_CLUSTERS:
        found = phrase("role: {role} is none of {on_clusters}", role=f"{role!r}", on_clusters=", ".join(ON_CLUSTERS))
        raise Refused("account.invalid", _operation(user, cluster), cause=found)
    wanted: dict[str, Any] = {"user": user, "cluster": cluster, "role": role}
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)
        if is_held:
            changed = ClusterRole.objects.get_or_create(**wanted)[1]
        else:
            changed = bool(ClusterRole.objects.filter(**wanted).delete()[0])
        if changed:
            append(
                actor=actor,
                action="account.role_given" if is_held else "account.role_taken",
                subject=user.get_username(),
                cluster=cluster.name,
                detail={"role": role},
            )
    return changed


def _operation(user: User, cluster: Cluster) -> str:
    return phrase("Changing the roles of {user} on {cluster}", user=f"{user.get_username()!r}", cluster=cluster.name)
