"""Django system check of the database's character set and collation."""

from collections.abc import Iterable
from typing import Any

from django.core.checks import Error
from django.db import connections

HINT = (
    "ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, before the first migrate (docs/how-to/install.md)"
)


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
