"""Django system checks of the database: its character set and collation, and what a pooler loses."""

import re
from collections.abc import Iterable
from typing import Any

from django.core.checks import Error
from django.db import connections, transaction

HINT = (
    "ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, before the first migrate (docs/how-to/install.md)"
)
#: Names and values in the startup options of PostgreSQL.
ASKED = re.compile(r"-c (\w+)=((?:\\.|[^\s\\])+)")


def check_collation(databases: Iterable[str] | None = None, **_: Any) -> list[Error]:
    """Refuse a MariaDB database that truncates characters or ignores case; SQLite and PostgreSQL do neither."""
    errors = []
    for alias in databases or ():
        connection = connections[alias]
        if connection.vendor != "mysql":
            continue
        with connection.cursor() as cursor:
            cursor.execute("SELECT DATABASE(), @@character_set_database, @@collation_database")
            name, character_set, collation = cursor.fetchone()
        if character_set != "utf8mb4" or not collation.endswith(("_bin", "_cs")):
            found = f"The database {name} uses {character_set} with {collation}, which ignores case or truncates characters."
            errors.append(Error(found, hint=HINT.format(name=name), id="dbops.E001"))
    return errors


def check_session(databases: Iterable[str] | None = None, **_: Any) -> list[Error]:
    """Refuse a PostgreSQL session that lacks what dbops asks for at its start, as behind PgBouncer.

    Without the timeouts, one frozen process blocks all others. Settings of the role reach every session.
    """
    errors = []
    for alias in databases or ():
        connection = connections[alias]
        if connection.vendor != "postgresql":
            continue
        asked = ASKED.findall(connection.settings_dict["OPTIONS"]["options"])
        wrong = [
            (name, value.replace("\\", "")) for name, value in asked if _differs(alias, name, value.replace("\\", ""))
        ]
        if wrong:
            role = connection.settings_dict["USER"]
            found = f"PostgreSQL did not get {', '.join(f'{name}={value}' for name, value in wrong)}. A pooler in between dropped it."
            hint = " ".join(f"ALTER ROLE \"{role}\" SET {name} = '{value}';" for name, value in wrong)
            errors.append(Error(found, hint=f"{hint} Then reconnect the pooler.", id="dbops.E003"))
    return errors


def _differs(alias: str, name: str, value: str) -> bool:
    """Whether a setting has another value. The server writes both in its own units."""
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        found = cursor.fetchone()
        cursor.execute("SELECT set_config(%s, %s, true)", [name, value])
        return bool(found != cursor.fetchone())
