"""What the database's own errors mean. In each case nothing of the transaction was written, and it may be tried again."""

from django.db import DatabaseError, InterfaceError, InternalError, OperationalError, connection

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
