"""Permissions: viewers read, operators act."""

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User
from django.db.models import Q, QuerySet

from dbops.engine.errors import Refused
from dbops.security.login_settings import GROUPS as GROUPS
from dbops.security.login_settings import OPERATOR as OPERATOR
from dbops.security.login_settings import SUPERUSER
from dbops.security.login_settings import VIEWER as VIEWER


def make_groups() -> None:
    """Create the two groups if missing."""
    for name in GROUPS:
        Group.objects.get_or_create(name=name)


def may_operate(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether the user can make changes: an active operator or superuser."""
    if not isinstance(user, User) or not user.is_active:
        return False
    return user.is_superuser or user.groups.filter(name=OPERATOR).exists()


def may_view(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether the user can read: an active member of either group, or a superuser."""
    if not isinstance(user, User) or not user.is_active:
        return False
    return user.is_superuser or user.groups.filter(name__in=GROUPS).exists()


def people_who_may_view() -> QuerySet[User]:
    """Return all users who can read. One query."""
    allowed = Q(is_superuser=True) | Q(groups__name__in=GROUPS)
    return User.objects.filter(allowed, is_active=True).distinct()


def operators() -> list[tuple[int, str]]:
    """Return key and name of all operators, by name. One query."""
    allowed = Q(is_superuser=True) | Q(groups__name=OPERATOR)
    found = User.objects.filter(allowed, is_active=True).distinct().order_by("username")
    return list(found.values_list("pk", "username"))


def require_operator(user: AbstractBaseUser | AnonymousUser, operation: str) -> None:
    """Raise ``Refused`` (``access.denied``) unless the user is an operator; in the sample, always (``sample.read_only``)."""
    if settings.SAMPLE:
        raise sample_refusal(operation)
    if not may_operate(user):
        raise Refused(
            "access.denied",
            operation,
            cause=f"{user} is not an operator",
            next_step="Ask a superuser to add you to the group 'operator'.",
        )


def needs_second_factor(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether the user's group must have a second factor. Without such groups, no query."""
    wanted = settings.SECOND_FACTOR_GROUPS
    if not wanted or not isinstance(user, User):
        return False
    if user.is_superuser and SUPERUSER in wanted:
        return True
    return user.groups.filter(name__in=wanted).exists()


def may_administer(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether the user can manage accounts: an active superuser."""
    return isinstance(user, User) and user.is_active and user.is_superuser


def require_superuser(user: AbstractBaseUser | AnonymousUser, operation: str) -> None:
    """Raise ``Refused`` (``access.denied``) unless the user is a superuser; in the sample, always (``sample.read_only``)."""
    if settings.SAMPLE:
        raise sample_refusal(operation)
    if not may_administer(user):
        raise Refused(
            "access.denied",
            operation,
            cause=f"{user} is not a superuser",
            next_step="Ask a superuser to do this.",
        )


def sample_refusal(operation: str) -> Refused:
    """Return the refusal of changes and host access in the sample."""
    return Refused(
        "sample.read_only",
        operation,
        cause="this is the sample, with generated history and no real servers",
    )


def group_of(user: User) -> str:
    """Return an account's group, ``""`` if it is in neither."""
    names = {group.name for group in user.groups.all()}
    return next((name for name in reversed(GROUPS) if name in names), "")
