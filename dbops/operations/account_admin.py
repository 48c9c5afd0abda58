"""Account management by superusers in the browser. Each change is in the audit log; a password never is.

``manage.py account`` skips the rules about the last superuser: its user controls the machine.
"""

from typing import NoReturn

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.models import ChosenLanguage, DefaultView, GivenPassword
from dbops.operations import factors, login_sessions
from dbops.operations.accounts import check_account, check_password
from dbops.operations.api_tokens import revoke_api_tokens
from dbops.operations.login_sessions import drop_sessions
from dbops.security.permissions import GROUPS, group_of, make_groups, require_superuser

NOTHING = phrase("Nothing was changed.")


def access_of(user: User) -> str:
    """Return the displayed state of an account in one word: a request from an outdated page is refused."""
    return f"{group_of(user) or 'none'}/{int(user.is_superuser)}/{int(user.is_active)}"


def add_account(*, actor: User, name: str, group: str, password: str, superuser: bool = False) -> User:
    """Add an account.

    Raises:
        Refused: ``access.denied``; name, group or password is invalid (``account.invalid``); the name is taken
            (``account.exists``).
    """
    operation = phrase("Adding the account {name}", name=f"{name!r}")
    require_superuser(actor, operation)
    user = User(username=name, is_superuser=superuser)
    check_account(user, name, group, password)
    user.set_password(password)
    try:
        with transaction.atomic():
            make_groups()
            user.save()
            user.groups.add(Group.objects.get(name=group))
            GivenPassword.objects.create(user=user)
            append(
                actor=actor.get_username(),
                action="account.created",
                subject=name,
                detail={"group": group, "superuser": superuser},
            )
    except IntegrityError as error:
        found = phrase("an account with this name exists")
        raise Refused("account.exists", operation, cause=found) from error
    return user


def change_account(*, actor: User, user: User, group: str, superuser: bool, seen: str) -> None:
    """Change the group of an account, and whether it is a superuser.

    Args:
        seen: ``access_of`` at the time of the page.

    Raises:
        Refused: ``access.denied``, ``account.invalid``, ``account.stale`` (changed since), ``account.last_superuser``.
    """
    operation = phrase("Changing the account {user}", user=f"{user.get_username()!r}")
    require_superuser(actor, operation)
    with transaction.atomic():
        make_groups()
        row = _lock(user, operation, seen)
        if group not in GROUPS:
            _refuse_group(operation, group)
        before = group_of(row)
        if row.is_superuser and not superuser:
            _refuse_last(row, operation)
        changed = {"group": f"{before or '(none)'} → {group}"} if before != group else {}
        if row.is_superuser != superuser:
            changed["superuser"] = f"{'yes' if row.is_superuser else 'no'} → {'yes' if superuser else 'no'}"
        if not changed:
            return
        User.objects.filter(pk=row.pk).update(is_superuser=superuser)
        row.groups.remove(*Group.objects.filter(name__in=GROUPS).exclude(name=group))
        row.groups.add(Group.objects.get(name=group))
        append(actor=actor.get_username(), action="account.changed", subject=row.get_username(), detail=changed)


def set_password(*, actor: User, user: User, password: str) -> User:
    """Set another password. Sessions of the account end, because they depend on the old one. Return the current row.

    Another person's password must be changed at the next login: two people know it until then. It is listed among the overrides.

    Raises:
        Refused: ``access.denied``, ``account.invalid``.
    """
    operation = phrase("Setting the password of {user}", user=f"{user.get_username()!r}")
    require_superuser(actor, operation)
    check_password(user, password, operation)
    with transaction.atomic():
        row = _lock(user, operation)
        row.set_password(password)
        row.save(update_fields=["password"])
        if actor.pk == row.pk:
            GivenPassword.objects.filter(user=row).delete()
            append(actor=actor.get_username(), action="account.password_changed", subject=row.get_username())
        else:
            GivenPassword.objects.get_or_create(user=row)
            append(actor=actor.get_username(), action="account.password_set", subject=row.get_username())
    return row


def change_own_password(*, user: User, password: str, with_tokens: bool = False) -> User:
    """Change one's own password; the caller has checked the current one. Other sessions end. Return the current row.

    Args:
        with_tokens: also revoke the account's API tokens.

    Raises:
        Refused: ``account.invalid``.
    """
    operation = phrase("Changing the password of {user}", user=f"{user.get_username()!r}")
    check_password(user, password, operation)
    with transaction.atomic():
        row = _lock(user, operation)
        row.set_password(password)
        row.save(update_fields=["password"])
        GivenPassword.objects.filter(user=row).delete()
        revoked = revoke_api_tokens(actor=row.get_username(), user=row) if with_tokens else 0
        append(
            actor=row.get_username(),
            action="account.password_changed",
            subject=row.get_username(),
            detail={"tokens_revoked": revoked},
        )
    return row


def deactivate(*, actor: User, user: User, seen: str) -> None:
    """Deactivate an account, and end its sessions at once.

    Raises:
        Refused: ``access.denied``, ``account.self`` (own account), ``account.stale``, ``account.last_superuser``.
    """
    operation = phrase("Deactivating the account {user}", user=f"{user.get_username()!r}")
    require_superuser(actor, operation)
    if actor.pk == user.pk:
        raise Refused("account.self", operation, cause=phrase("it is your own account"))
    with transaction.atomic():
        row = _lock(user, operation, seen)
        if row.is_superuser:
            _refuse_last(row, operation)
        User.objects.filter(pk=row.pk).update(is_active=False)
        ended = drop_sessions(row)
        append(
            actor=actor.get_username(),
            action="account.deactivated",
            subject=row.get_username(),
            detail={"sessions_ended": ended},
        )


def reactivate(*, actor: User, user: User, seen: str) -> None:
    """Reactivate an account with its former password, group and rights.

    Raises:
        Refused: ``access.denied``, ``account.stale``.
    """
    operation = phrase("Reactivating the account {user}", user=f"{user.get_username()!r}")
    require_superuser(actor, operation)
    with transaction.atomic():
        row = _lock(user, operation, seen)
        User.objects.filter(pk=row.pk).update(is_active=True)
        append(actor=actor.get_username(), action="account.reactivated", subject=row.get_username())


def reset_factors(*, actor: User, user: User) -> None:
    """Remove another person's second factors, for one who lost them, and end the account's sessions.

    Raises:
        Refused: ``access.denied``.
    """
    require_superuser(actor, phrase("Resetting the second factors of {user}", user=f"{user.get_username()!r}"))
    factors.remove_all_factors(actor=actor.get_username(), user=user)


def end_sessions(*, actor: User, user: User, with_tokens: bool) -> tuple[int, int]:
    """End all sessions of an account at once, and revoke its API tokens on request. Return both numbers.

    Raises:
        Refused: ``access.denied``.
    """
    require_superuser(actor, phrase("Ending the sessions of {user}", user=f"{user.get_username()!r}"))
    return login_sessions.end_all_sessions(actor=actor.get_username(), user=user, with_tokens=with_tokens)


def save_default_view(user: User, query: str) -> None:
    """Save the user's default filters of the fleet page. The audit log has no entry of it.

    Args:
        query: of the page's URL, at most 1,000 characters; empty for the whole fleet.
    """
    if query:
        DefaultView.objects.update_or_create(user=user, defaults={"query": query})
    else:
        DefaultView.objects.filter(user=user).delete()


def default_view_of(user: User) -> str:
    """Return the user's default filters, or empty. One query."""
    return DefaultView.objects.filter(user=user).values_list("query", flat=True).first() or ""


def choose_language(user: User, code: str) -> None:
    """Save the language of the user's pages. The audit log has no entry of it.

    Args:
        code: of ``LANGUAGES``.
    """
    ChosenLanguage.objects.update_or_create(user=user, defaults={"code": code})


def language_of(user: User) -> str:
    """Return the language that the user chose, or empty. One query."""
    return ChosenLanguage.objects.filter(user=user).values_list("code", flat=True).first() or ""


def _lock(user: User, operation: str, seen: str | None = None) -> User:
    """Return the row, locked together with every superuser's: of two that demote each other the second is refused."""
    rows = {row.pk: row for row in _superusers().select_for_update()}
    row = rows.get(user.pk) or User.objects.select_for_update().get(pk=user.pk)
    if seen is not None and access_of(row) != seen:
        found = phrase("another user changed it after you opened the page")
        raise Refused("account.stale", operation, cause=found)
    return row


def _superusers() -> QuerySet[User]:
    return User.objects.filter(is_superuser=True, is_active=True).order_by("pk")


def _refuse_last(row: User, operation: str) -> None:
    if row.is_active and not User.objects.filter(is_superuser=True, is_active=True).exclude(pk=row.pk).exists():
        found = phrase("{row} is the last active superuser", row=row.get_username())
        raise Refused("account.last_superuser", operation, cause=found)


def _refuse_group(operation: str, group: str) -> NoReturn:
    found = phrase("group: {group} is neither {groups}", group=f"{group!r}", groups=" nor ".join(GROUPS))
    raise Refused("account.invalid", operation, cause=found)
