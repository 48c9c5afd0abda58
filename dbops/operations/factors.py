"""Second factors of accounts, which django-allauth stores: authenticator app, passkeys, recovery codes."""

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append
from dbops.operations.login_sessions import drop_sessions

#: Factors on their own. Recovery codes only replace one that is lost.
PRIMARY = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


def has_factor(user: User) -> bool:
    """Whether the account has a second factor. One query."""
    return Authenticator.objects.filter(user=user, type__in=PRIMARY).exists()


def remove_all_factors(*, actor: str, user: User) -> int:
    """Remove all second factors of an account and end its sessions. The caller has checked the permission.

    Returns:
        The number of removed factors, without recovery codes.
    """
    with transaction.atomic():
        row = User.objects.select_for_update().get(pk=user.pk)
        rows = Authenticator.objects.filter(user=row)
        removed = rows.filter(type__in=PRIMARY).count()
        rows.delete()
        ended = drop_sessions(row)
        append(
            actor=actor,
            action="account.factors_reset",
            subject=row.get_username(),
            detail={"factors_removed": removed, "sessions_ended": ended},
        )
    return removed
