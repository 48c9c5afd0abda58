"""What Django checks before it makes or changes tables: that the database can hold what dbops writes."""

from collections.abc import Iterable
from typing import Any

from django.core.checks import Error
from django.db import connections

HINT = (
    "ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, before the first migrate (docs/how-to/install.md)"
)


def check_collation(databases: Iterable[str] | None = None, **_: Any) -> list[Error]:
    """Refuse a MariaDB database that cuts characters or takes ``replica-1`` for ``Replica-1``: SQLite and PostgreSQL do not."""
    errors = []
    for alias in databases or ():
        connection = connections[alias]
        if connection.vendor != "mysql":
            continue
        with connection.cursor() as cursor:
            cursor.execute("SELECT DATABASE(), @@character_set_database, @@collation_database")
            name, character_set, collation = cursor.fetchone()
        if character_set != "utf8mb4" or not collation.endswith(("_bin", "_cs")):
            found = (
                f"The database {name} is {character_set} with {collation}, which does not tell upper from lower case."
            )
            errors.append(Error(found, hint=HINT.format(name=name), id="dbops.E001"))
    return errors
