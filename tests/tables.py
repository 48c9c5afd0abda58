"""Reading and writing the dashboard's own tables from outside, on SQLite, PostgreSQL and MariaDB alike."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import dj_database_url
import psycopg
import pymysql
from psycopg.types.string import TextLoader


def rows(url: str, sql: str, *parameters: Any) -> list[dict[str, Any]]:
    """Return what a SELECT finds. ``?`` is a parameter; JSON comes as text."""
    with _cursor(url) as (cursor, translate):
        cursor.execute(translate(sql), parameters)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def write(url: str, sql: str, *parameters: Any) -> None:
    with _cursor(url) as (cursor, translate):
        cursor.execute(translate(sql), parameters)


def _percent(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


@contextmanager
def _cursor(url: str) -> Iterator[Any]:
    """Give a cursor, and how a statement must be written for it; commit at the end."""
    if url.startswith("sqlite"):
        connection: Any = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=20)
    elif url.startswith("postgresql"):
        connection = psycopg.connect(url)
        connection.adapters.register_loader("jsonb", TextLoader)
    else:
        parts = dj_database_url.parse(url)
        connection = pymysql.connect(
            host=parts["HOST"],
            port=int(parts["PORT"]),
            user=parts["USER"],
            password=parts["PASSWORD"],
            database=parts["NAME"],
            ssl_disabled=True,  # PyMySQL would load the machine's authorities for each connection
        )
    with closing(connection):
        yield connection.cursor(), (str if isinstance(connection, sqlite3.Connection) else _percent)
        connection.commit()
