"""Entries of the audit log may leave the database when a segment says that a file has them, and only then."""

from django.db import migrations, models

REFUSAL = "audit entries are never changed or removed"
ENTRIES = ("dbops_auditentry", "dbops_audittext")
SEGMENTS = "dbops_auditsegment"
#: What was put away; a row above that stays.
PUT_AWAY = f"(SELECT COALESCE(MAX({SEGMENTS}.last), 0) FROM {SEGMENTS})"  # noqa: S608 - our own names


def guard(apps, schema_editor):
    """Refuse the removal of entries that no segment has, and any change of segments."""
    vendor = schema_editor.connection.vendor
    for table in ENTRIES:
        _drop(schema_editor, table, "delete")
    for statement in {"sqlite": _of_sqlite, "postgresql": _of_postgresql, "mysql": _of_mariadb}[vendor]():
        schema_editor.execute(statement)


def unguard(apps, schema_editor):
    """Take the refusals of this migration away: for tests that begin anew, and the way back (where ``restore`` follows)."""
    for event in ("update", "delete", "insert", "truncate"):
        _drop(schema_editor, SEGMENTS, event)
    for table in ENTRIES:
        _drop(schema_editor, table, "delete")
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION IF EXISTS dbops_audit_put_away()")


def restore(apps, schema_editor):
    """On the way back: refuse every removal again, as migration 0013 does."""
    vendor = schema_editor.connection.vendor
    unguard(apps, schema_editor)
    for table in ENTRIES:
        if vendor == "sqlite":
            body = f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        elif vendor == "postgresql":
            body = "FOR EACH ROW EXECUTE FUNCTION dbops_audit_refuse()"
        else:
            body = f"FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{REFUSAL}'"
        schema_editor.execute(f"CREATE TRIGGER {table}_delete BEFORE DELETE ON {table} {body}")


def _drop(schema_editor, table, event):
    on = f" ON {table}" if schema_editor.connection.vendor == "postgresql" else ""
    schema_editor.execute(f"DROP TRIGGER IF EXISTS {table}_{event}{on}")


def _of_sqlite():
    refuse = f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    for table in ENTRIES:
        yield f"CREATE TRIGGER {table}_delete BEFORE DELETE ON {table} WHEN OLD.sequence > {PUT_AWAY} {refuse}"
    for event in ("update", "delete"):
        yield f"CREATE TRIGGER {SEGMENTS}_{event} BEFORE {event.upper()} ON {SEGMENTS} {refuse}"
    there = f"EXISTS (SELECT 1 FROM {SEGMENTS} WHERE id = NEW.id OR last = NEW.last OR first = NEW.first)"  # noqa: S608 - our own names
    yield f"CREATE TRIGGER {SEGMENTS}_insert BEFORE INSERT ON {SEGMENTS} WHEN {there} {refuse}"


def _of_postgresql():
    yield (
        "CREATE FUNCTION dbops_audit_put_away() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN IF OLD.sequence > {PUT_AWAY} THEN"
        f" RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN OLD; END $$"
    )
    for table in ENTRIES:
        yield (
            f"CREATE TRIGGER {table}_delete BEFORE DELETE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION dbops_audit_put_away()"
        )
    for event in ("update", "delete", "truncate"):
        each = "STATEMENT" if event == "truncate" else "ROW"
        yield (
            f"CREATE TRIGGER {SEGMENTS}_{event} BEFORE {event.upper()} ON {SEGMENTS}"
            f" FOR EACH {each} EXECUTE FUNCTION dbops_audit_refuse()"
        )


def _of_mariadb():
    refuse = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{REFUSAL}'"
    for table in ENTRIES:
        kept = f"IF OLD.sequence > {PUT_AWAY} THEN {refuse}; END IF"
        yield f"CREATE TRIGGER {table}_delete BEFORE DELETE ON {table} FOR EACH ROW {kept}"
    for event in ("update", "delete"):
        yield f"CREATE TRIGGER {SEGMENTS}_{event} BEFORE {event.upper()} ON {SEGMENTS} FOR EACH ROW {refuse}"


class Migration(migrations.Migration):
    dependencies = [
        ("dbops", "0017_sent_reports"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditSegment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("first", models.BigIntegerField(unique=True)),
                ("last", models.BigIntegerField(unique=True)),
                ("previous", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
                ("file_name", models.CharField(max_length=200)),
                ("file_hash", models.CharField(max_length=64)),
                ("at", models.DateTimeField()),
            ],
            options={"ordering": ["last"]},
        ),
        # Not in a transaction of its own: MariaDB would end it with the first trigger.
        migrations.RunPython(guard, restore, atomic=False),
    ]
