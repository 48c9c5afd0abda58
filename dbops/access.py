"""Who may do what: viewers look, operators act."""

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User

from dbops.engine.errors import Refused

VIEWER = "viewer"
OPERATOR = "operator"


def make_groups() -> None:
    """Create the two groups where they are missing."""
    for name in (VIEWER, OPERATOR):
        Group.objects.get_or_create(name=name)


def may_operate(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Tell whether the user may change anything: an active operator or superuser."""
    if not isinstance(user, User) or not user.is_active:
        return False
    return user.is_superuser or user.groups.filter(name=OPERATOR).exists()


def may_view(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Tell whether the user may look: an active member of either group, or a superuser."""
    if not isinstance(user, User) or not user.is_active:
        return False
    return user.is_superuser or user.groups.filter(name__in=(VIEWER, OPERATOR)).exists()


def require_operator(user: AbstractBaseUser | AnonymousUser, doing: str) -> None:
    """Raise ``Refused`` (``access.denied``) unless the user may operate."""
    if not may_operate(user):
        raise Refused(
            "access.denied",
            doing,
            found=f"{user} is not an operator",
            left="Nothing was changed.",
            next_step="Ask an administrator to add you to the group 'operator'.",
        )
