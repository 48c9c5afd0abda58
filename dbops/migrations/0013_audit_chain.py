"""The audit log becomes a hash chain, and the database refuses to change it. Entries that are there are chained in their order."""

from dataclasses import replace

from django.db import migrations, models

from dbops.engine.audit.chain import GENESIS, Head, Link, hash_of, plain
from dbops.engine.audit.entries import outcome_of, subject_is, text_of

BATCH = 1000
NAMED = ("actor", "action", "subject", "instance", "cluster", "outcome")
#: Each table whose rows stay, with what a new row may not share with one that is there.
TABLES = {
    "dbops_auditentry": ("id", "sequence"),
    "dbops_audittext": ("sequence",),
    "dbops_auditname": ("id",),
}
HEAD = "dbops_audithead"
REFUSAL = "audit entries are never changed or removed"


def chain(apps, schema_editor):
    entries, heads = apps.get_model("dbops", "AuditEntry"), apps.get_model("dbops", "AuditHead")
    texts, names = apps.get_model("dbops", "AuditText"), apps.get_model("dbops", "AuditName")
    clusters = dict(apps.get_model("dbops", "Instance").objects.values_list("name", "cluster__name"))
    head, seen = Head(), set()
    columns = ["sequence", "previous", "hash", "instance", "cluster", "outcome", "reason"]
    while rows := list(entries.objects.filter(sequence=None).order_by("pk")[:BATCH]):
        for row in rows:
            link = _link(row, head, clusters)
            head = Head(link.sequence, link.hash)
            seen |= {(column, getattr(link, column)) for column in NAMED if getattr(link, column)}
            for column in columns:
                setattr(row, column, getattr(link, column))
        entries.objects.bulk_update(rows, columns, batch_size=100)
        texts.objects.bulk_create(texts(sequence=row.sequence, text=text_of(row.reason, row.detail)) for row in rows)
    names.objects.bulk_create(
        (names(column=column, name=name, folded=name.casefold()) for column, name in sorted(seen)), batch_size=BATCH
    )
    heads.objects.create(pk=1, sequence=head.sequence, hash=head.hash)


def _link(row, head, clusters):
    kind = subject_is(row.action)
    instance = row.subject if kind == "instance" else ""
    told = row.detail.get("reason", "") if isinstance(row.detail, dict) else ""
    link = Link(
        sequence=head.sequence + 1,
        previous=head.hash,
        hash="",
        at=row.at,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        instance=instance,
        cluster=row.subject if kind == "cluster" else clusters.get(instance, ""),
        outcome=outcome_of(row.action),
        reason=plain(told) if isinstance(told, str) else "",
        detail=plain(row.detail),
    )
    return replace(link, hash=hash_of(link))


def guard(apps, schema_editor):
    """Have the database refuse what would change the log."""
    for statement in _guards(schema_editor.connection.vendor):
        schema_editor.execute(statement)


def unguard(apps, schema_editor):
    """Take the refusals away: for the way back through this migration, and for tests that begin anew."""
    vendor = schema_editor.connection.vendor
    for table in (*TABLES, HEAD):
        for event in ("update", "delete", "insert", "truncate"):
            if vendor == "postgresql":
                schema_editor.execute(f"DROP TRIGGER IF EXISTS {table}_{event} ON {table}")
            else:
                schema_editor.execute(f"DROP TRIGGER IF EXISTS {table}_{event}")
    if vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION IF EXISTS dbops_audit_refuse()")
        schema_editor.execute("DROP FUNCTION IF EXISTS dbops_audit_head_forward()")


def _guards(vendor):
    return {"sqlite": _of_sqlite, "postgresql": _of_postgresql, "mysql": _of_mariadb}[vendor]()


def _of_sqlite():
    refuse = f"SELECT RAISE(ABORT, '{REFUSAL}')"
    for table, keys in TABLES.items():
        for event in ("update", "delete"):
            yield f"CREATE TRIGGER {table}_{event} BEFORE {event.upper()} ON {table} BEGIN {refuse}; END"
        # REPLACE fires no trigger of DELETE there: who puts a row in the place of another one is refused as such.
        same = " OR ".join(f"{key} = NEW.{key}" for key in keys)
        if table == "dbops_auditname":
            same += ' OR ("column" = NEW."column" AND name = NEW.name)'
        there = f"EXISTS (SELECT 1 FROM {table} WHERE {same})"  # noqa: S608 - our own names
        yield f"CREATE TRIGGER {table}_insert BEFORE INSERT ON {table} WHEN {there} BEGIN {refuse}; END"
    yield f"CREATE TRIGGER {HEAD}_delete BEFORE DELETE ON {HEAD} BEGIN {refuse}; END"
    there = f"EXISTS (SELECT 1 FROM {HEAD})"  # noqa: S608 - our own name
    yield f"CREATE TRIGGER {HEAD}_insert BEFORE INSERT ON {HEAD} WHEN {there} BEGIN {refuse}; END"
    yield (
        f"CREATE TRIGGER {HEAD}_update BEFORE UPDATE ON {HEAD}"
        f" WHEN NEW.id <> OLD.id OR NEW.sequence <= OLD.sequence BEGIN {refuse}; END"
    )


def _of_postgresql():
    yield (
        "CREATE FUNCTION dbops_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    yield (
        "CREATE FUNCTION dbops_audit_head_forward() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF NEW.id <> OLD.id OR NEW.sequence <= OLD.sequence THEN"
        f" RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN NEW; END $$"
    )
    for table in (*TABLES, HEAD):
        for event in ("update", "delete", "truncate"):
            each = "STATEMENT" if event == "truncate" else "ROW"
            function = "head_forward" if (table, event) == (HEAD, "update") else "refuse"
            yield (
                f"CREATE TRIGGER {table}_{event} BEFORE {event.upper()} ON {table}"
                f" FOR EACH {each} EXECUTE FUNCTION dbops_audit_{function}()"
            )


def _of_mariadb():
    # REPLACE fires the trigger of DELETE; TRUNCATE fires none, and only a missing right to DROP keeps anybody from it.
    refuse = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{REFUSAL}'"
    for table in (*TABLES, HEAD):
        for event in ("update", "delete"):
            forward = "IF NEW.id <> OLD.id OR NEW.sequence <= OLD.sequence THEN {}; END IF"
            body = forward.format(refuse) if (table, event) == (HEAD, "update") else refuse
            yield f"CREATE TRIGGER {table}_{event} BEFORE {event.upper()} ON {table} FOR EACH ROW {body}"


class Migration(migrations.Migration):
    dependencies = [
        ("dbops", "0012_periods"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sequence", models.BigIntegerField(default=0)),
                ("hash", models.CharField(default=GENESIS, max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="AuditText",
            fields=[
                ("sequence", models.BigIntegerField(primary_key=True, serialize=False)),
                ("text", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="AuditName",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("column", models.CharField(max_length=10)),
                ("name", models.CharField(max_length=200)),
                ("folded", models.CharField(max_length=600)),
            ],
        ),
        migrations.AddConstraint(
            model_name="auditname",
            constraint=models.UniqueConstraint(fields=("column", "name"), name="dbops_audit_name"),
        ),
        migrations.AddField("auditentry", "sequence", models.BigIntegerField(null=True)),
        *(
            migrations.AddField("auditentry", name, models.CharField(max_length=length, default="", blank=True))
            for name, length in (
                ("previous", 64),
                ("hash", 64),
                ("instance", 200),
                ("cluster", 200),
                ("outcome", 20),
                ("address", 64),
                ("request", 64),
            )
        ),
        migrations.AddField("auditentry", "reason", models.TextField(default="", blank=True)),
        migrations.RunPython(chain, migrations.RunPython.noop),
        migrations.AlterField("auditentry", "sequence", models.BigIntegerField(unique=True)),
        migrations.AlterField("auditentry", "previous", models.CharField(max_length=64)),
        migrations.AlterField("auditentry", "hash", models.CharField(max_length=64)),
        *(
            migrations.AlterField("auditentry", name, models.CharField(max_length=length, blank=True))
            for name, length in (("instance", 200), ("cluster", 200), ("outcome", 20), ("address", 64), ("request", 64))
        ),
        migrations.AlterField("auditentry", "reason", models.TextField(blank=True)),
        migrations.AlterModelOptions("auditentry", options={"ordering": ["-sequence"]}),
        *(
            migrations.AddIndex("auditentry", models.Index(fields=[name, "sequence"], name=f"dbops_audit_{name}"))
            for name in NAMED
        ),
        # Not in a transaction of its own: MariaDB would end it with the first trigger.
        migrations.RunPython(guard, unguard, atomic=False),
    ]
