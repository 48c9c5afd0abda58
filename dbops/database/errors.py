"""What the database's own errors mean. In each case nothing of the transaction was written, and it may be tried again."""

from typing import TypeVar

from django.db import DatabaseError, InterfaceError, InternalError, OperationalError, connection
from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)

#: The database does not answer, or has ended our connection (PostgreSQL tells of an idle transaction by ``InternalError``).
AWAY = (OperationalError, InterfaceError, InternalError)

#: MariaDB: deadlock, lock wait timeout, record changed. PostgreSQL: deadlock, serialisation failure, lock not available.
LOST_RACES = frozenset({1213, 1205, 1020, "40P01", "40001", "55P03"})


def lost_a_race(error: DatabaseError) -> bool:
    """Return whether another transaction was chosen over this one: two that insert the same holds may deadlock."""
    cause = error.__cause__
    code = getattr(cause, "sqlstate", None) or next(iter(getattr(cause, "args", ())), None)
    return code in LOST_RACES


def mend_connection() -> None:
    """Let the next statement have a connection that works: one that the server has ended stays broken. Not in a transaction."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def locked(model: type[Row], pk: int) -> QuerySet[Row]:
    """Return the one row of a primary key for a conditional update, its lock taken first. In the caller's transaction.

    MariaDB may find the row of ``UPDATE ... WHERE id = 1 AND status = 'queued'`` by the index on ``status`` (its entries end with the
    primary key, so that both find one row): it then locks the index's entry before the row, and a transaction that has the row and
    moves its status locks the two in the other order. Measured: of eight who decide on one rebuild at a moment, one was told of a
    deadlock in five runs of six. PostgreSQL locks rows alone, SQLite the database.
    """
    row = model._default_manager.filter(pk=pk)
    if connection.vendor == "mysql":
        row.order_by().select_for_update().values_list("pk").first()
    return row
