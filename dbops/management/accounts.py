"""Resolve the user that a management command acts as."""

import getpass
import os
import pwd
from contextlib import suppress

from django.contrib.auth.models import Group, User
from django.core.management.base import CommandError

from dbops.security.permissions import OPERATOR, make_groups

LONGEST_LOGIN = 100


def login_name() -> str:
    """Return the name of the account that runs this command; its number where it has no name, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def logins() -> tuple[str, ...]:
    """Return all names by which the machine knows who runs this command: one person must not count as two.

    The name of the process's user cannot be chosen; the others can, so they only add to it.
    """
    found = {login_name(), os.environ.get("SUDO_USER", "")}
    with suppress(KeyError):
        found.add(pwd.getpwuid(os.getuid()).pw_name)
    return tuple(sorted(name[:LONGEST_LOGIN] for name in found if name))


def actor_named(name: str | None) -> User:
    """Return the user with this name, or ``cli-<login name>``, created if missing.

    A person who can run a command already has the dashboard's keys; the name is for the audit log.

    Raises:
        CommandError: There is no user with this name.
    """
    if name:
        try:
            return User.objects.get(username=name)
        except User.DoesNotExist:
            raise CommandError(f"There is no user named {name!r}.", returncode=2) from None
    make_groups()
    user, made = User.objects.get_or_create(username=f"cli-{login_name()}")
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
        user.groups.add(Group.objects.get(name=OPERATOR))
    return user
