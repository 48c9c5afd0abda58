"""Blocks of a thousand audit entries get signatures, so that a text is searched for where it may stand alone."""

from django.db import migrations, models

from dbops.engine.audit.search_index import signature_of

REFUSAL = "audit entries are never changed or removed"
TABLE = "dbops_auditblock"
ENTRIES = 1000
#: A block may go when every one of its entries was put away.
IS_NEEDED = f"(OLD.number + 1) * {ENTRIES} > (SELECT COALESCE(MAX(last), 0) FROM dbops_auditsegment)"  # noqa: S608 - our own names


def sum_up(apps, schema_editor):
    """Give every whole block that is there its signature."""
    blocks, texts = apps.get_model("dbops", "AuditBlock"), apps.get_model("dbops", "AuditText")
    numbers = texts.objects.order_by("sequence").values_list("sequence", flat=True)
    if not (first := numbers.first()):
        return
    for number in range(-(-(first - 1) // ENTRIES), numbers.last() // ENTRIES):
        within = texts.objects.filter(sequence__range=(number * ENTRIES + 1, (number + 1) * ENTRIES))
        blocks.objects.create(number=number, signature=signature_of(within.values_list("text", flat=True)))


def guard(apps, schema_editor):
    """Have the database refuse what would hide entries from a search."""
    for statement in {"sqlite": _of_sqlite, "postgresql": _of_postgresql, "mysql": _of_mariadb}[
        schema_editor.connection.vendor
    ]():
        schema_editor.execute(statement)


def unguard(apps, schema_editor):
    """Take the refusals away: for the way back through this migration, and for tests that begin anew."""
    on = f" ON {TABLE}" if schema_editor.connection.vendor == "postgresql" else ""
    for event in ("update", "delete", "insert", "truncate"):
        schema_editor.execute(f"DROP TRIGGER IF EXISTS {TABLE}_{event}{on}")
    if on:
        schema_editor.execute("DROP FUNCTION IF EXISTS dbops_audit_block_put_away()")


def _of_sqlite():
    refuse = f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    yield f"CREATE TRIGGER {TABLE}_update BEFORE UPDATE ON {TABLE} {refuse}"
    yield f"CREATE TRIGGER {TABLE}_delete BEFORE DELETE ON {TABLE} WHEN {IS_NEEDED} {refuse}"
    there = f"EXISTS (SELECT 1 FROM {TABLE} WHERE number = NEW.number)"  # noqa: S608 - our own names
    yield f"CREATE TRIGGER {TABLE}_insert BEFORE INSERT ON {TABLE} WHEN {there} {refuse}"


def _of_postgresql():
    yield (
        "CREATE FUNCTION dbops_audit_block_put_away() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN IF {IS_NEEDED} THEN"
        f" RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN OLD; END $$"
    )
    for event, each, function in (
        ("update", "ROW", "refuse"),
        ("delete", "ROW", "block_put_away"),
        ("truncate", "STATEMENT", "refuse"),
    ):
        yield (
            f"CREATE TRIGGER {TABLE}_{event} BEFORE {event.upper()} ON {TABLE}"
            f" FOR EACH {each} EXECUTE FUNCTION dbops_audit_{function}()"
        )


def _of_mariadb():
    refuse = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{REFUSAL}'"
    yield f"CREATE TRIGGER {TABLE}_update BEFORE UPDATE ON {TABLE} FOR EACH ROW {refuse}"
    kept = f"IF {IS_NEEDED} THEN {refuse}; END IF"
    yield f"CREATE TRIGGER {TABLE}_delete BEFORE DELETE ON {TABLE} FOR EACH ROW {kept}"


class Migration(migrations.Migration):
    dependencies = [
        ("dbops", "0020_cluster_goal"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditBlock",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("signature", models.BinaryField()),
            ],
        ),
        # Not in a transaction of its own: MariaDB would end it with the first trigger.
        migrations.RunPython(sum_up, migrations.RunPython.noop, atomic=False),
        migrations.RunPython(guard, unguard, atomic=False),
    ]
