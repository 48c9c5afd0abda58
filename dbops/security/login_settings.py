"""What the settings of logins may be: groups that need a second factor, and an OpenID Connect provider."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

VIEWER = "viewer"
APPROVER = "approver"
OPERATOR = "operator"
#: From least to most rights. An account is in one of them.
GROUPS = (VIEWER, APPROVER, OPERATOR)
SUPERUSER = "superuser"
#: What a name in the settings means, from least to most rights.
ROLES = (*GROUPS, SUPERUSER)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def read_second_factor(names: Sequence[str]) -> frozenset[str]:
    """Return the groups whose members need a second factor.

    Raises:
        ValueError: A name is none of ``ROLES``.
    """
    for name in names:
        _check_role("DBOPS_SECOND_FACTOR_GROUPS", name)
    return frozenset(names)


def read_issuer(url: str) -> str:
    """Return the provider's issuer as configured: it must equal the one in its tokens.

    Raises:
        ValueError: It is not an HTTPS address, or one of this machine.
    """
    if not url:
        return ""
    parts = urlsplit(url)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    if not (is_safe and parts.hostname) or parts.query or parts.fragment or parts.username:
        raise ValueError(f"DBOPS_OIDC_ISSUER must be an https:// address without a query, not {url!r}")
    return url


def read_groups(pairs: Sequence[str]) -> dict[str, str]:
    """Return the group of dbops by the provider's group, from pairs such as ``dba-team=operator``.

    Raises:
        ValueError: A pair has no ``=``, or names no group of dbops.
    """
    found = {}
    for pair in pairs:
        theirs, separator, ours = (part.strip() for part in pair.rpartition("="))
        if not (theirs and separator):
            raise ValueError(f"DBOPS_OIDC_GROUPS must be pairs such as dba-team=operator, not {pair!r}")
        _check_role("DBOPS_OIDC_GROUPS", ours)
        found[theirs] = ours
    return found


def require_provider(issuer: str, client_id: str, groups: Mapping[str, str], recovery_account: str) -> None:
    """Check settings that need each other.

    Raises:
        ValueError: A provider lacks its client or its groups, or a recovery account lacks its provider.
    """
    if issuer and not (client_id and groups):
        raise ValueError("DBOPS_OIDC_ISSUER also needs DBOPS_OIDC_CLIENT_ID and DBOPS_OIDC_GROUPS")
    if recovery_account and not issuer:
        raise ValueError("DBOPS_RECOVERY_ACCOUNT turns local logins off, so it needs DBOPS_OIDC_ISSUER")


def highest_role(roles: Sequence[str]) -> str:
    """Return the role with most rights; "" without any."""
    return max(roles, key=ROLES.index, default="")


def _check_role(variable: str, name: str) -> None:
    if name not in ROLES:
        raise ValueError(f"{variable} knows {', '.join(ROLES)}, not {name!r}")
