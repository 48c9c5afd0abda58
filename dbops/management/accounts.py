"""Who acts when a command is given on the dashboard's own machine."""

import getpass

from django.contrib.auth.models import Group, User
from django.core.management.base import CommandError

from dbops.security.permissions import OPERATOR, make_groups


def actor_named(name: str | None) -> User:
    """Return the user of this name, or ``cli-<login name>``, made when missing.

    Whoever may run a command has the dashboard's keys already; the record still wants a name. Raises ``CommandError``.
    """
    if name:
        try:
            return User.objects.get(username=name)
        except User.DoesNotExist:
            raise CommandError(f"There is no user named {name!r}.", returncode=2) from None
    make_groups()
    user, made = User.objects.get_or_create(username=f"cli-{getpass.getuser()}")
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
        user.groups.add(Group.objects.get(name=OPERATOR))
    return user
