"""Create, change and list user accounts: name, password, group."""

from dataclasses import dataclass

from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.engine.phrases import joined, phrase
from dbops.security.permissions import GROUPS, make_groups


@dataclass(frozen=True, slots=True)
class ListedAccount:
    """One row of the list of accounts."""

    name: str
    groups: tuple[str, ...]
    is_superuser: bool
    is_active: bool
    #: Names of clusters, each with a role on it.
    roles: tuple[tuple[str, str], ...] = ()


def save_account(
    *, actor: str, name: str, group: str, password: str, superuser: bool = False
) -> tuple[User, list[str]]:
    """Create an account or change it to these values; a second call changes nothing.

    Args:
        actor: for the audit log; the caller has checked the permission.
        group: one of ``GROUPS``; the account leaves the others.
        superuser: all permissions, with or without a group; ``False`` removes them.

    Returns:
        The account, and what changed: ``created``, or names of ``password``, ``group``, ``superuser``, ``active``.

    Raises:
        Refused: the name, group or password is invalid (``account.invalid``).
    """
    with transaction.atomic():
        make_groups()
        user = User.objects.select_for_update().filter(username=name).first()
        is_new = user is None
        user = user or User(username=name)
        check_account(user, name, group, password)
        changed = _changes(user, password, superuser)
        user.is_superuser, user.is_active = superuser, True
        if "password" in changed:
            user.set_password(password)
        if is_new:
            user.save()
        elif changed:
            user.save(update_fields=["is_superuser", "is_active", "password"])
        if set(user.groups.filter(name__in=GROUPS).values_list("name", flat=True)) != {group}:
            user.groups.remove(*Group.objects.filter(name__in=GROUPS).exclude(name=group))
            user.groups.add(Group.objects.get(name=group))
            changed.append("group")
        if is_new:
            changed = ["created"]
        if changed:
            action = "account.created" if is_new else "account.changed"
            append(
                actor=actor,
                action=action,
                subject=name,
                detail={"changed": changed, "group": group, "superuser": superuser},
            )
    return user, changed


def list_accounts() -> list[ListedAccount]:
    """Return every account, by name."""
    return [
        ListedAccount(
            user.get_username(),
            tuple(sorted(group.name for group in user.groups.all())),
            user.is_superuser,
            user.is_active,
            tuple(sorted((one.cluster.name, one.role) for one in user.cluster_roles.all())),
        )
        for user in User.objects.order_by("username").prefetch_related("groups", "cluster_roles__cluster")
    ]


def _changes(user: User, password: str, superuser: bool) -> list[str]:
    changed = [] if user.pk and user.check_password(password) else ["password"]
    changed += ["superuser"] if user.is_superuser != superuser else []
    return changed + ([] if user.is_active else ["active"])


def check_account(user: User, name: str, group: str, password: str) -> None:
    """Raise ``Refused`` (``account.invalid``) with every reason unless name, group and password are valid."""
    problems = []
    try:
        User._meta.get_field("username").clean(name, user)
    except ValidationError as error:
        problems += [phrase("name: {message}", message=message) for message in error.messages]
    if group not in GROUPS:
        problems.append(phrase("group: {group} is neither {groups}", group=repr(group), groups=" nor ".join(GROUPS)))
    _refuse(phrase("Saving the account {name}", name=f"{name!r}"), [*problems, *_password_problems(user, password)])


def check_password(user: User, password: str, operation: str) -> None:
    """Raise ``Refused`` (``account.invalid``) unless the password is valid."""
    _refuse(operation, _password_problems(user, password))


def _password_problems(user: User, password: str) -> list[str]:
    try:
        validate_password(password, user)
    except ValidationError as error:
        return [phrase("password: {message}", message=message) for message in error.messages]
    return []


def _refuse(operation: str, problems: list[str]) -> None:
    if problems:
        raise Refused(
            "account.invalid",
            operation,
            cause=joined(problems),
        )
