"""Which privileges the dashboard's account has, and which of those that a rebuild needs it lacks.

``docs/how-to/accounts.md`` lists them; the tests take each away on a real server.
"""

import re
from collections.abc import Iterable

from dbops.engine.flavors.base import Flavor

SHOW_GRANTS = "SHOW GRANTS"
ALL = "ALL PRIVILEGES"
#: The list of a grant of all schemas; names of schemas and accounts, which may contain any word, are never in it.
_GLOBAL_PRIVILEGES = re.compile(r"^GRANT ([A-Z_, ]+) ON \*\.\* TO ")
_ROLE = re.compile(r"^GRANT [`'\"]")


def global_privileges(grants: Iterable[str]) -> frozenset[str]:
    """Return the privileges on all schemas in lines of ``SHOW GRANTS``."""
    found = (_GLOBAL_PRIVILEGES.match(grant) for grant in grants)
    return frozenset(name.strip() for match in found if match for name in match[1].split(","))


def missing_for_rebuild(flavor: Flavor, grants: Iterable[str]) -> tuple[str, ...]:
    """Return what the dashboard's account lacks to attach a copy to its primary and to set variables there.

    Without one of them, a rebuild fails after the old data was moved aside. An account with a role may get them from it: then
    nothing is known to be missing.

    Args:
        grants: the account's lines of ``SHOW GRANTS``.
    """
    grants = tuple(grants)
    held = global_privileges(grants)
    if ALL in held or any(_ROLE.match(grant) for grant in grants):
        return ()
    return tuple(names[0] for names in needed_for_rebuild(flavor) if held.isdisjoint(names))


def needed_for_rebuild(flavor: Flavor) -> tuple[tuple[str, ...], ...]:
    """Return privileges, each with those that include it."""
    if flavor.name == "mysql" and flavor.version >= (8, 0, 0):
        names = [("REPLICATION_SLAVE_ADMIN", "SUPER"), ("SYSTEM_VARIABLES_ADMIN", "SUPER")]
        return (("SELECT",), ("RELOAD",), *names)
    parts = flavor.name == "mariadb" and flavor.version >= (11, 0, 0)  # before, SUPER includes them
    return (
        ("SELECT",),
        ("RELOAD",),
        ("SUPER",),
        *((("REPLICATION SLAVE ADMIN",), ("READ_ONLY ADMIN",)) if parts else ()),
    )
