"""Whether the database still refuses what would change the audit log: its triggers (migrations 0013, 0018 and 0021), looked up by name."""

from django.db import connection

from dbops.models import AuditBlock, AuditEntry, AuditHead, AuditName, AuditSegment, AuditText

EVENTS = {
    "sqlite": ("update", "delete", "insert"),
    "postgresql": ("update", "delete", "truncate"),
    "mysql": ("update", "delete"),
}
#: One that is there but switched off, or that acts on replicas alone, guards nothing.
THERE = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
        " WHERE tgenabled IN ('O', 'A') AND pg_table_is_visible(pg_class.oid)"
    ),
    "mysql": "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()",
}


def missing_guards() -> list[tuple[str, str]]:
    """Return table and event of each refusal that the database has lost. One query."""
    with connection.cursor() as cursor:
        cursor.execute(THERE[connection.vendor])
        there = {row[0] for row in cursor.fetchall()}
    tables = [model._meta.db_table for model in (AuditEntry, AuditText, AuditBlock, AuditName, AuditHead, AuditSegment)]
    wanted = [(table, event) for table in tables for event in EVENTS[connection.vendor]]
    return [(table, event) for table, event in wanted if f"{table}_{event}" not in there]
