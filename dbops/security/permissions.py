"""Permissions of accounts: their roles from the database, decided by ``dbops.engine.access.roles``."""

from collections import defaultdict

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User
from django.db.models import Q, QuerySet

from dbops.engine.access.roles import NO_ROLES, ON_CLUSTERS, AccessRole, Action, HeldRoles, may
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.security.login_settings import GROUPS as GROUPS
from dbops.security.login_settings import OPERATOR as OPERATOR
from dbops.security.login_settings import SUPERUSER
from dbops.security.login_settings import VIEWER as VIEWER


def make_groups() -> None:
    """Create the groups if missing."""
    for name in GROUPS:
        Group.objects.get_or_create(name=name)


def roles_of(user: AbstractBaseUser | AnonymousUser) -> HeldRoles:
    """Return the roles of an account now; none unless it is active. One query, for a superuser none."""
    if not isinstance(user, User) or not user.is_active:
        return NO_ROLES
    if user.is_superuser:
        return HeldRoles(frozenset({AccessRole.ADMIN}))
    everywhere: set[AccessRole] = set()
    on: dict[int, set[AccessRole]] = defaultdict(set)
    columns = ("groups__name", "cluster_roles__cluster", "cluster_roles__role")
    for group, cluster, role in User.objects.filter(pk=user.pk).values_list(*columns):
        if group in GROUPS:
            everywhere.add(AccessRole(group))
        if cluster is not None and role in ON_CLUSTERS:
            on[cluster].add(AccessRole(role))
    return HeldRoles(frozenset(everywhere), {cluster: frozenset(roles) for cluster, roles in on.items()})


def is_allowed(user: AbstractBaseUser | AnonymousUser, action: Action, cluster: int | None = None) -> bool:
    """Whether the user may do something to a cluster (its key), or without one to the whole fleet. One query."""
    return may(roles_of(user), action, cluster)


def may_operate(user: AbstractBaseUser | AnonymousUser, cluster: int | None = None) -> bool:
    """Whether the user can make changes: an active operator or superuser, or an operator of that cluster."""
    return is_allowed(user, Action.OPERATE, cluster)


def may_view(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether the user can read: an active member of one of the groups, or a superuser."""
    return is_allowed(user, Action.VIEW)


def people_who_may_view() -> QuerySet[User]:
    """Return all users who can read. One query."""
    allowed = Q(is_superuser=True) | Q(groups__name__in=GROUPS)
    return User.objects.filter(allowed, is_active=True).distinct()


def people_who_may(action: Action, cluster: int | None = None) -> list[tuple[int, str]]:
    """Return key and name of all users who may do something to a cluster, by name. Three queries."""
    found = people_who_may_view().order_by("username").prefetch_related("groups", "cluster_roles")
    return [(user.pk, user.get_username()) for user in found if may(_prefetched(user), action, cluster)]


def _prefetched(user: User) -> HeldRoles:
    if user.is_superuser:
        return roles_of(user)
    on: dict[int, set[AccessRole]] = defaultdict(set)
    for row in user.cluster_roles.all():
        on[row.cluster_id].add(AccessRole(row.role))
    everywhere = frozenset(AccessRole(group.name) for group in user.groups.all() if group.name in GROUPS)
    return HeldRoles(everywhere, {cluster: frozenset(roles) for cluster, roles in on.items()})


def require(user: AbstractBaseUser | AnonymousUser, action: Action, operation: str, cluster: int | None = None) -> None:
    """Raise ``Refused`` (``access.denied``) unless the user may do something; in the sample, always (``sample.read_only``).

    Args:
        operation: for the refusal.
        cluster: the key of the cluster that is changed; ``None`` for the fleet, its hosts and its settings.
    """
    if settings.SAMPLE:
        raise sample_refusal(operation)
    if not is_allowed(user, action, cluster):
        where = phrase("everywhere") if cluster is None else phrase("on this cluster")
        raise Refused(
            "access.denied",
            operation,
            cause=phrase("{user} may not {action} {where}", user=user, action=action, where=where),
        )


def require_operator(user: AbstractBaseUser | AnonymousUser, operation: str, cluster: int | None = None) -> None:
    """Raise as ``require`` unless the user may operate the cluster; without one, the whole fleet."""
    require(user, Action.OPERATE, operation, cluster)


def needs_second_factor(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether the user's group or a role on a cluster must have a second factor. Without such groups, no query."""
    wanted = settings.SECOND_FACTOR_GROUPS
    if not wanted or not isinstance(user, User):
        return False
    if user.is_superuser and SUPERUSER in wanted:
        return True
    on_clusters = [AccessRole.ADMIN if name == SUPERUSER else name for name in wanted]
    groups, roles = Q(groups__name__in=wanted), Q(cluster_roles__role__in=on_clusters)
    return User.objects.filter(groups | roles, pk=user.pk).exists()


def may_administer(user: AbstractBaseUser | AnonymousUser, cluster: int | None = None) -> bool:
    """Whether the user can manage accounts: an active superuser; of a cluster: its rules, also an admin of it."""
    return is_allowed(user, Action.ADMINISTER, cluster)


def require_superuser(user: AbstractBaseUser | AnonymousUser, operation: str) -> None:
    """Raise as ``require`` unless the user is a superuser."""
    require(user, Action.ADMINISTER, operation)


def sample_refusal(operation: str) -> Refused:
    """Return the refusal of changes and host access in the sample."""
    return Refused(
        "sample.read_only",
        operation,
        cause=phrase("this is the sample, with generated history and no real servers"),
    )


def group_of(user: User) -> str:
    """Return an account's group, ``""`` if it is in none."""
    names = {group.name for group in user.groups.all()}
    return next((name for name in reversed(GROUPS) if name in names), "")
