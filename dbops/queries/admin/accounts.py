"""Read accounts and access tokens."""

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import User

from dbops.models import AccessToken, Cluster, ClusterRole
from dbops.security.permissions import group_of


@dataclass(frozen=True, slots=True)
class AccountRow:
    """One row of the list of accounts."""

    user: User
    group: str
    #: It logs in without the provider where all others need it.
    is_recovery: bool


def accounts() -> list[AccountRow]:
    """Return every account by name, active ones first. Two queries."""
    rows = User.objects.order_by("-is_active", "username").prefetch_related("groups").defer("password")
    return [AccountRow(user, group_of(user), user.get_username() == settings.RECOVERY_ACCOUNT) for user in rows]


def roles_of_account(user: User) -> list[ClusterRole]:
    """Return the roles of an account on single clusters. One query."""
    return list(ClusterRole.objects.filter(user=user).select_related("cluster").order_by("cluster__name", "role"))


def roles_on_cluster(cluster: Cluster) -> list[ClusterRole]:
    """Return who has a role on a cluster alone. One query."""
    return list(ClusterRole.objects.filter(cluster=cluster).select_related("user").order_by("user__username", "role"))


def tokens() -> list[AccessToken]:
    """Return every token with its cluster, by name, including revoked ones. One query."""
    return list(AccessToken.objects.select_related("cluster", "user"))


def machine_tokens() -> list[AccessToken]:
    """Return every token that belongs to no account, valid ones first. One query."""
    return list(AccessToken.objects.filter(user=None).select_related("cluster").order_by("revoked_at", "name"))


def api_tokens(user: User | None = None) -> list[AccessToken]:
    """Return the tokens of an account, or (``None``) of all accounts, valid ones first. Two queries."""
    rows = AccessToken.objects.exclude(user=None) if user is None else AccessToken.objects.filter(user=user)
    return list(rows.select_related("user").prefetch_related("clusters").order_by("revoked_at", "name"))
