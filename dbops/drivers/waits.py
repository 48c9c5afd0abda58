"""Read the totals of wait events over one connection. It changes nothing on the server."""

from dbops.engine.capacity.waits import WaitTotals, reading_of, wait_statement
from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors.base import Flavor
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database

#: The server ends a reading after this time. One took 3 to 70 ms on each server, see docs/explanation/capacity.md.
STATEMENT_SECONDS = 5
#: Beginnings of the causes: no right to a table or its columns, or no PROCESS; ended as it took too long (MariaDB, MySQL).
DENIED, TOO_LONG = ("1142:", "1143:", "1044:", "1227:"), ("1969:", "3024:")


def read_waits(database: Database, flavor: Flavor) -> WaitTotals:
    """Return the totals since the server's start.

    Raises:
        RemoteFailure: the account may not read ``performance_schema`` (``waits.denied``), the reading took too long
            (``waits.too_long``), or the answer is incomplete (``waits.unreadable``).
        Unreachable: there is no connection.
    """
    is_mariadb = flavor.name == "mariadb"
    limit = "max_statement_time" if is_mariadb else "max_execution_time"
    database.execute(f"SET SESSION {limit} = {STATEMENT_SECONDS if is_mariadb else STATEMENT_SECONDS * 1000}")
    try:
        rows = database.query(wait_statement(flavor.name, flavor.version))
    except RemoteFailure as error:
        operation = phrase("Reading wait events")
        if error.cause.startswith(DENIED):
            raise RemoteFailure("waits.denied", operation, cause=error.cause) from None
        if error.cause.startswith(TOO_LONG):
            raise RemoteFailure("waits.too_long", operation, cause=error.cause) from None
        raise
    return reading_of(tuple(row.values()) for row in rows)
