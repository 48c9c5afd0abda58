"""The triggers that make the audit log append-only, as SQL for each database. The migration creates them; tests take them away.

Entries and their texts may be deleted only when a segment covers them: ``manage.py audit archive`` wrote them to a file.
"""

from collections.abc import Iterator

REFUSAL = "audit entries are append-only"
ENTRIES = ("dbops_auditentry", "dbops_audittext")
NAMES, HEAD, SEGMENTS = "dbops_auditname", "dbops_audithead", "dbops_auditsegment"
TABLES = (*ENTRIES, NAMES, HEAD, SEGMENTS)
EVENTS = {
    "sqlite": ("update", "delete", "insert"),
    "postgresql": ("update", "delete", "truncate"),
    "mysql": ("update", "delete"),
}
#: The last archived entry; later rows stay.
ARCHIVED = f"(SELECT COALESCE(MAX({SEGMENTS}.last), 0) FROM {SEGMENTS})"  # noqa: S608 - our own names
#: Columns that a new row may not share with another. SQLite's REPLACE fires no DELETE trigger, so its INSERT is refused.
SQLITE_KEYS = {
    "dbops_auditentry": "id = NEW.id OR sequence = NEW.sequence",
    "dbops_audittext": "sequence = NEW.sequence",
    NAMES: 'id = NEW.id OR ("column" = NEW."column" AND name = NEW.name)',
    HEAD: "1",
    SEGMENTS: "id = NEW.id OR last = NEW.last OR first = NEW.first",
}


def create_statements(vendor: str) -> Iterator[str]:
    """Yield the statements that create every trigger.

    Args:
        vendor: ``connection.vendor``: ``sqlite``, ``postgresql`` or ``mysql`` (MariaDB).
    """
    return {"sqlite": _sqlite, "postgresql": _postgresql, "mysql": _mariadb}[vendor]()


def drop_statements(vendor: str) -> Iterator[str]:
    """Yield the statements that remove every trigger, for reverse migrations and tests."""
    for table in TABLES:
        for event in EVENTS[vendor]:
            on = f" ON {table}" if vendor == "postgresql" else ""
            yield f"DROP TRIGGER IF EXISTS {table}_{event}{on}"
    if vendor == "postgresql":
        for function in ("refuse", "head_forward", "archived"):
            yield f"DROP FUNCTION IF EXISTS dbops_audit_{function}()"


def _sqlite() -> Iterator[str]:
    refuse = f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    allowed = {
        **{(table, "delete"): f" WHEN OLD.sequence > {ARCHIVED}" for table in ENTRIES},
        (HEAD, "update"): " WHEN NEW.id <> OLD.id OR NEW.sequence <= OLD.sequence",
    }
    for table in TABLES:
        for event in ("update", "delete"):
            when = allowed.get((table, event), "")
            yield f"CREATE TRIGGER {table}_{event} BEFORE {event.upper()} ON {table}{when} {refuse}"
        there = f"EXISTS (SELECT 1 FROM {table} WHERE {SQLITE_KEYS[table]})"  # noqa: S608 - our own names
        yield f"CREATE TRIGGER {table}_insert BEFORE INSERT ON {table} WHEN {there} {refuse}"


def _postgresql() -> Iterator[str]:
    refuse = f"RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'integrity_constraint_violation'"
    functions = {
        "refuse": f"{refuse};",
        "head_forward": f"IF NEW.id <> OLD.id OR NEW.sequence <= OLD.sequence THEN {refuse}; END IF; RETURN NEW;",
        "archived": f"IF OLD.sequence > {ARCHIVED} THEN {refuse}; END IF; RETURN OLD;",
    }
    for name, body in functions.items():
        head = f"CREATE FUNCTION dbops_audit_{name}() RETURNS trigger LANGUAGE plpgsql AS"
        yield f"{head} $$ BEGIN {body} END $$"
    special = {**{(table, "delete"): "archived" for table in ENTRIES}, (HEAD, "update"): "head_forward"}
    for table in TABLES:
        for event in EVENTS["postgresql"]:
            each = "STATEMENT" if event == "truncate" else "ROW"
            function = special.get((table, event), "refuse")
            yield (
                f"CREATE TRIGGER {table}_{event} BEFORE {event.upper()} ON {table}"
                f" FOR EACH {each} EXECUTE FUNCTION dbops_audit_{function}()"
            )


def _mariadb() -> Iterator[str]:
    # REPLACE fires the trigger of DELETE; TRUNCATE fires none: only a missing right to DROP prevents it.
    refuse = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{REFUSAL}'"
    special = {
        **{(table, "delete"): f"IF OLD.sequence > {ARCHIVED} THEN {refuse}; END IF" for table in ENTRIES},
        (HEAD, "update"): f"IF NEW.id <> OLD.id OR NEW.sequence <= OLD.sequence THEN {refuse}; END IF",
    }
    for table in TABLES:
        for event in EVENTS["mysql"]:
            body = special.get((table, event), refuse)
            yield f"CREATE TRIGGER {table}_{event} BEFORE {event.upper()} ON {table} FOR EACH ROW {body}"
