"""Statements of the certificate have a time limit: a driver that waits too long is ended, and would begin the same again."""

from collections.abc import Sequence
from typing import Any

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors.base import Flavor
from dbops.engine.phrases import phrase
from dbops.engine.ports import Clock, Database

#: One statement, and all statements of one call of the step: a call may take 30 s.
STATEMENT_SECONDS, CALL_SECONDS = 20.0, 26.0
#: The errors of a statement that took too long: MariaDB, MySQL.
NUMBERS = ("1969:", "3024:")
TOO_LONG = phrase("the statement took too long")


class Bounded(Database):
    """A connection whose queries have a limit each, and one together.

    The limit is the server's own: it ends the statement alone, and the connection with its snapshot stays usable.

    Args:
        longest: seconds for one query.
        within: seconds for all, from now on.
    """

    def __init__(
        self,
        database: Database,
        flavor: Flavor,
        clock: Clock,
        *,
        longest: float = STATEMENT_SECONDS,
        within: float = CALL_SECONDS,
    ) -> None:
        self._database, self._clock = database, clock
        self._is_mariadb = flavor.name == "mariadb"
        self._longest, self._limit = longest, 0
        self.begin(within)

    def begin(self, within: float) -> None:
        """Restart the time of all queries."""
        self._until = self._clock.now() + within

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        limit = int(min(self._until - self._clock.now(), self._longest))
        if limit < 1:
            raise RemoteFailure("mysql.error", phrase("Comparing both servers"), cause=f"{NUMBERS[0]} {TOO_LONG}")
        if limit != self._limit:
            name, value = ("max_statement_time", limit) if self._is_mariadb else ("max_execution_time", limit * 1000)
            self._database.execute(f"SET SESSION {name} = {value}")
            self._limit = limit
        return self._database.query(sql, parameters)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self._database.execute(sql, parameters)

    def close(self) -> None:
        self._database.close()


def took_too_long(error: RemoteFailure) -> bool:
    """Return whether the server ended the statement because of its limit."""
    return error.cause.startswith(NUMBERS)
