"""Check that the audit log's append-only triggers exist in the database."""

from django.db import connection

from dbops.audit.trigger_sql import EVENTS, TABLES

#: A disabled or replica-only trigger protects nothing.
EXISTING = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
        " WHERE tgenabled IN ('O', 'A') AND pg_table_is_visible(pg_class.oid)"
    ),
    "mysql": "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()",
}


def missing_triggers() -> list[tuple[str, str]]:
    """Return table and event of each missing trigger. One query."""
    with connection.cursor() as cursor:
        cursor.execute(EXISTING[connection.vendor])
        existing = {row[0] for row in cursor.fetchall()}
    wanted = [(table, event) for table in TABLES for event in EVENTS[connection.vendor]]
    return [(table, event) for table, event in wanted if f"{table}_{event}" not in existing]
