"""Roles, actions, and the one function that decides who may do what on which cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class AccessRole(StrEnum):
    """What an account is, everywhere or on one cluster."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"


class Action(StrEnum):
    """What people do. Without a cluster: to the fleet, its hosts, accounts and settings."""

    VIEW = "view"
    OPERATE = "operate"
    #: Approve or decline another person's rebuild.
    APPROVE = "approve"
    #: The same where only approvers may.
    SIGN_OFF = "sign off"
    #: Change the rules of approvals and tickets; of the fleet: manage accounts.
    ADMINISTER = "administer"


#: The whole of it. A role on a cluster allows the same there as the role everywhere.
ALLOWED: Mapping[AccessRole, frozenset[Action]] = {
    AccessRole.VIEWER: frozenset({Action.VIEW}),
    AccessRole.OPERATOR: frozenset({Action.VIEW, Action.OPERATE, Action.APPROVE}),
    AccessRole.APPROVER: frozenset({Action.VIEW, Action.APPROVE, Action.SIGN_OFF}),
    AccessRole.ADMIN: frozenset(Action),
}
#: Roles that an account can have on single clusters. Everybody who can view sees all clusters.
ON_CLUSTERS = (AccessRole.OPERATOR, AccessRole.APPROVER, AccessRole.ADMIN)


@dataclass(frozen=True, slots=True)
class HeldRoles:
    """The roles of one account: everywhere, and on single clusters by their key."""

    everywhere: frozenset[AccessRole] = frozenset()
    on: Mapping[int, frozenset[AccessRole]] = field(default_factory=dict)


NO_ROLES = HeldRoles()


def may(roles: HeldRoles, action: Action, cluster: int | None = None) -> bool:
    """Decide whether an account may do something to a cluster; ``None``: to what belongs to no single cluster.

    A role on a cluster counts only for an account that can view: all pages show more than one cluster.
    """
    if not _allowed(roles.everywhere, Action.VIEW):
        return False
    held = roles.everywhere | (roles.on.get(cluster, frozenset()) if cluster is not None else frozenset())
    return _allowed(held, action)


def may_somewhere(roles: HeldRoles, action: Action) -> bool:
    """Whether an account may do something to the fleet or to at least one cluster."""
    return may(roles, action) or any(may(roles, action, cluster) for cluster in roles.on)


def _allowed(held: Iterable[AccessRole], action: Action) -> bool:
    return any(action in ALLOWED[role] for role in held)
