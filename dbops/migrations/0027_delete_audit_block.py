from importlib import import_module

from django.db import migrations

BLOCKS = import_module("dbops.migrations.0021_audit_blocks")


class Migration(migrations.Migration):
    dependencies = [
        ("dbops", "0026_proof_host"),
    ]

    operations = [
        # Not in a transaction of its own: MariaDB would end it with the first trigger.
        migrations.RunPython(BLOCKS.unguard, BLOCKS.guard, atomic=False),
        migrations.DeleteModel("AuditBlock"),
    ]
