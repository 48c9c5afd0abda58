"""Accounts of people who log in with an OpenID Connect provider. Issuer and subject identify them, never a name or an address."""

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.operations.login_sessions import drop_sessions
from dbops.security.claims import Identity, identity_key, roles_of, valid_subject
from dbops.security.login_settings import GROUPS, OPERATOR, SUPERUSER, highest_role
from dbops.security.permissions import group_of, make_groups

#: The one provider's name in django-allauth's table and in URLs.
PROVIDER = "oidc"


def admit(identity: Identity) -> User:
    """Return the account of a person whom the provider proved, with the rights that its groups give now.

    The first login makes the account. A login without a mapped group takes all rights, and ends the account's sessions.

    Raises:
        Refused: ``login.no_group``; ``login.name_taken`` (another account has the name).
    """
    role = highest_role(roles_of(identity.groups, settings.OIDC_GROUPS))
    user = _linked(identity.key)
    if user is None and role:
        user = _make(identity, role)
    elif user is not None:
        _follow(user, role)
    if user is None or not role:
        raise Refused(
            "login.no_group",
            phrase("Logging in as {identity}", identity=identity.name),
            cause=phrase(
                "none of the groups in the claim {oidc_groups_claim} is mapped to a group of dbops",
                oidc_groups_claim=settings.OIDC_GROUPS_CLAIM,
            ),
        )
    return user


def link_account(*, actor: str, user: User, subject: str) -> None:
    """Let a person of the provider log in to an account that exists. The caller has checked the permission.

    Raises:
        Refused: ``account.invalid``: no provider, the recovery account, or a wrong or used subject.
    """
    operation = phrase("Linking the account {user}", user=f"{user.get_username()!r}")
    if not settings.OIDC_ISSUER:
        raise Refused("account.invalid", operation, cause=phrase("DBOPS_OIDC_ISSUER is not set"))
    if user.get_username() == settings.RECOVERY_ACCOUNT:
        raise Refused(
            "account.invalid", operation, cause=phrase("the recovery account must not depend on the provider")
        )
    if not valid_subject(subject):
        raise Refused("account.invalid", operation, cause=phrase("the subject is empty, too long or not printable"))
    try:
        with transaction.atomic():
            SocialAccount.objects.create(
                user=user,
                provider=PROVIDER,
                uid=identity_key(settings.OIDC_ISSUER, subject),
                extra_data={"issuer": settings.OIDC_ISSUER, "subject": subject},
            )
            append(
                actor=actor,
                action="account.linked",
                subject=user.get_username(),
                detail={"issuer": settings.OIDC_ISSUER, "provider_subject": subject},
            )
    except IntegrityError as error:
        raise Refused("account.invalid", operation, cause=phrase("an account is linked to this subject")) from error


def unlink_account(*, actor: str, user: User) -> int:
    """Remove the links of an account to the provider, and end its sessions. The caller has checked the permission.

    Returns:
        The number of removed links.
    """
    with transaction.atomic():
        removed, _ = SocialAccount.objects.filter(user=user, provider=PROVIDER).delete()
        ended = drop_sessions(user)
        append(
            actor=actor,
            action="account.unlinked",
            subject=user.get_username(),
            detail={"links_removed": removed, "sessions_ended": ended},
        )
    return removed


def _linked(key: str) -> User | None:
    row = SocialAccount.objects.filter(provider=PROVIDER, uid=key).select_related("user").first()
    return row.user if row else None


def _make(identity: Identity, role: str) -> User:
    """Make the account of a first login. Two tabs that do so at once make one."""
    try:
        with transaction.atomic():
            make_groups()
            if _is_taken(identity.name):
                raise IntegrityError("the name is taken")
            user = User(username=identity.name, is_superuser=role == SUPERUSER)
            user.set_unusable_password()
            user.save()
            user.groups.add(Group.objects.get(name=_group(role)))
            SocialAccount.objects.create(
                user=user,
                provider=PROVIDER,
                uid=identity.key,
                extra_data={"issuer": identity.issuer, "subject": identity.subject},
            )
            append(
                actor=identity.name,
                action="account.created",
                subject=identity.name,
                detail={
                    "group": _group(role),
                    "superuser": role == SUPERUSER,
                    "issuer": identity.issuer,
                    "provider_subject": identity.subject,
                },
            )
            return user
    except IntegrityError as error:
        if (user_of_other_tab := _linked(identity.key)) is not None:
            return user_of_other_tab
        operation = phrase("Making the account {identity}", identity=f"{identity.name!r}")
        raise Refused("login.name_taken", operation, cause=phrase("an account with this name exists")) from error


def _is_taken(name: str) -> bool:
    """Whether an account has this name, whatever the case. Databases disagree about ``iexact`` (MariaDB: as the collation says)."""
    return any(one.casefold() == name.casefold() for one in User.objects.values_list("username", flat=True))


def _follow(user: User, role: str) -> None:
    """Give an account the rights of its groups at the provider."""
    with transaction.atomic():
        make_groups()
        row = User.objects.select_for_update().get(pk=user.pk)
        before, after = group_of(row), _group(role) if role else ""
        changed = {"group": f"{before or '(none)'} → {after or '(none)'}"} if before != after else {}
        if row.is_superuser != (role == SUPERUSER):
            changed["superuser"] = "no → yes" if role == SUPERUSER else "yes → no"
        if not changed:
            return
        User.objects.filter(pk=row.pk).update(is_superuser=role == SUPERUSER)
        row.groups.remove(*Group.objects.filter(name__in=GROUPS).exclude(name=after))
        if after:
            row.groups.add(Group.objects.get(name=after))
        ended = {} if role else {"sessions_ended": drop_sessions(row)}
        append(
            actor=row.get_username(),
            action="account.changed",
            subject=row.get_username(),
            detail={**changed, **ended, "by": "the provider's groups"},
        )


def _group(role: str) -> str:
    return OPERATOR if role == SUPERUSER else role
