"""Read accounts and access tokens."""

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import User

from dbops.models import AccessToken
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


def tokens() -> list[AccessToken]:
    """Return every token with its cluster, by name, including revoked ones. One query."""
    return list(AccessToken.objects.select_related("cluster"))
