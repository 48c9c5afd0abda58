"""Settings of the dashboard's database from its URL, with safe options for each vendor."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import dj_database_url

SQLITE, POSTGRESQL, MARIADB = (f"django.db.backends.{name}" for name in ("sqlite3", "postgresql", "mysql"))


def sqlite_url(file: Path) -> str:
    """Return the URL of a SQLite file. Quoted: ``#``, ``?`` and ``%`` of a folder's name are not the URL's own."""
    return f"sqlite:///{quote(str(file))}"


def database_settings(url: str, *, wait_seconds: int, password: str = "") -> dict[str, Any]:
    """Return Django's settings for a database URL; options in the URL take precedence.

    Args:
        url: ``sqlite:///...``, ``postgresql://...`` or ``mysql://...`` (MariaDB).
        wait_seconds: how long a write waits for another one. The server ends a transaction that is idle for half of this
            time, so that a stopped process does not block others (SQLite cannot do this).
        password: of the account, if the URL has none; SQLite has no accounts.
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
    if found["ENGINE"] != SQLITE:
        found["PASSWORD"] = found["PASSWORD"] or password
    found["OPTIONS"] = {**options(wait_seconds), **found.get("OPTIONS", {})}
    # Behind a pooler, the next rows of a cursor could be asked of another session.
    found["DISABLE_SERVER_SIDE_CURSORS"] = True
    return found


def _sqlite_options(wait_seconds: int) -> dict[str, Any]:
    # Measured with 8 writers: IMMEDIATE + WAL: 2,600 commits per second, no errors; DEFERRED: 545, 83 % errors.
    # FULL: with NORMAL a power cut loses the last commits, and a rebuild would not know that it has stopped its target.
    # It costs one sync per commit (measured: 200 per second at 5 ms); a rebuild commits about once per second.
    return {
        "transaction_mode": "IMMEDIATE",
        "timeout": wait_seconds,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL",
    }


def _postgresql_options(wait_seconds: int) -> dict[str, Any]:
    return {
        "connect_timeout": wait_seconds,
        # A pooler can lose these: ``database.checks`` compares.
        "options": f"-c default_transaction_isolation=read\\ committed -c lock_timeout={wait_seconds}s"
        f" -c idle_in_transaction_session_timeout={wait_seconds * 500}ms",
        # Without keepalives, a connection to a lost machine waits for two hours.
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }


def _mariadb_options(wait_seconds: int) -> dict[str, Any]:
    """Return the session options of MariaDB.

    READ COMMITTED: with MariaDB's default, a transaction keeps reading old versions of rows. Strict mode: a text that is
    too long is an error, as on PostgreSQL, and is not truncated.
    """
    return {
        "charset": "utf8mb4",
        "isolation_level": "read committed",
        "connect_timeout": wait_seconds,
        "read_timeout": 3 * wait_seconds,
        "write_timeout": 3 * wait_seconds,
        # MariaDB executes `/*M!` comments; MySQL, which lacks the variable, skips them.
        "init_command": "SET SESSION sql_mode='STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION',"
        f" innodb_lock_wait_timeout={wait_seconds}"
        f" /*M! , SESSION idle_transaction_timeout={max(1, wait_seconds // 2)} */",
    }
