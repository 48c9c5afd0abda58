"""Every table, and the triggers that make the audit log append-only."""

import dbops.models.fleet
import dbops.models.phrases
import dbops.models.secret
import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from dbops.audit.trigger_sql import create_statements, drop_statements


def create_triggers(apps, schema_editor):
    """Start the audit log: its head, and the refusal of every change."""
    apps.get_model("dbops", "AuditHead").objects.create(pk=1)
    for statement in create_statements(schema_editor.connection.vendor):
        schema_editor.execute(statement)


def drop_triggers(apps, schema_editor):
    for statement in drop_statements(schema_editor.connection.vendor):
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sequence", models.BigIntegerField(default=0)),
                (
                    "hash",
                    models.CharField(
                        default="0000000000000000000000000000000000000000000000000000000000000000", max_length=64
                    ),
                ),
            ],
        ),
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
            options={
                "ordering": ["last"],
            },
        ),
        migrations.CreateModel(
            name="AuditSink",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60, unique=True)),
                ("address", models.CharField(max_length=500)),
                ("ca", models.TextField(blank=True)),
                ("token", dbops.models.secret.SecretTextField(blank=True)),
                ("created_by", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField()),
                ("sent_sequence", models.BigIntegerField()),
                ("sent_at", models.DateTimeField(null=True)),
                ("dropped", models.BigIntegerField(default=0)),
                ("tested_sequence", models.BigIntegerField(null=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                ("failed_at", models.DateTimeField(null=True)),
                ("next_try_at", models.DateTimeField()),
                ("lease_owner", models.CharField(blank=True, max_length=32)),
                ("lease_until", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="AuditText",
            fields=[
                ("sequence", models.BigIntegerField(primary_key=True, serialize=False)),
                ("text", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="BackupSchedule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\\Z",
                                "Use at most 63 letters, digits, dots, dashes and underscores. Start with a letter or digit.",
                            )
                        ],
                    ),
                ),
                ("method", models.CharField(choices=[("dump", "dump"), ("physical", "physical")], max_length=10)),
                ("run_by", models.CharField(choices=[("dbops", "dbops"), ("external", "external")], max_length=10)),
                ("cron", models.CharField(max_length=120)),
                ("time_zone", models.CharField(default="UTC", max_length=64)),
                (
                    "directory",
                    models.CharField(
                        blank=True,
                        max_length=500,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A/[^\\0\\n\\r]*\\Z", "Use an absolute path without line breaks."
                            )
                        ],
                    ),
                ),
                ("keep_count", models.PositiveIntegerField(blank=True, default=7, null=True)),
                ("keep_days", models.PositiveIntegerField(blank=True, null=True)),
                ("expected_seconds", models.PositiveIntegerField(blank=True, null=True)),
                ("late_after_seconds", models.PositiveIntegerField(default=900)),
                ("is_enabled", models.BooleanField(default=True)),
                ("next_due_at", models.DateTimeField(db_index=True, null=True)),
            ],
            options={
                "ordering": ["instance__name", "name"],
            },
        ),
        migrations.CreateModel(
            name="Cluster",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\\Z",
                                "Use at most 63 letters, digits, dots, dashes and underscores. Start with a letter or digit.",
                            )
                        ],
                    ),
                ),
                ("write_addresses", models.JSONField(blank=True, default=list)),
                ("wanted_replicas", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("needs_approval", models.BooleanField(default=False)),
                ("approval_count", models.PositiveSmallIntegerField(default=1)),
                ("approvers_only", models.BooleanField(default=False)),
                ("ticket_pattern", models.CharField(blank=True, max_length=100)),
                ("ticket_url", models.CharField(blank=True, max_length=500)),
                ("tls_ca", models.TextField(blank=True)),
                ("redundancy_goal_seconds", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "restore_test_host",
                    models.CharField(
                        blank=True,
                        max_length=63,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\\Z",
                                "Use at most 63 letters, digits, dots, dashes and underscores. Start with a letter or digit.",
                            )
                        ],
                    ),
                ),
                (
                    "admin_user",
                    models.CharField(
                        blank=True,
                        default="",
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("admin_password", dbops.models.secret.SecretTextField(blank=True, default="")),
                (
                    "local_user",
                    models.CharField(
                        blank=True,
                        default="",
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("local_password", dbops.models.secret.SecretTextField(blank=True, default="")),
                (
                    "replication_user",
                    models.CharField(
                        blank=True,
                        default="",
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("replication_password", dbops.models.secret.SecretTextField(blank=True, default="")),
                (
                    "backup_user",
                    models.CharField(
                        blank=True,
                        default="",
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("backup_password", dbops.models.secret.SecretTextField(blank=True, default="")),
                (
                    "load_user",
                    models.CharField(
                        blank=True,
                        default="",
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("load_password", dbops.models.secret.SecretTextField(blank=True, default="")),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Host",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\\Z",
                                "Use at most 63 letters, digits, dots, dashes and underscores. Start with a letter or digit.",
                            )
                        ],
                    ),
                ),
                (
                    "ssh_address",
                    models.CharField(
                        max_length=253,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9:.\\[\\]_-]{1,253}\\Z", "This is not a host name or IP address."
                            )
                        ],
                    ),
                ),
                ("ssh_port", models.PositiveIntegerField(default=22)),
                (
                    "ssh_user",
                    models.CharField(
                        default="root",
                        max_length=64,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("ssh_private_key", dbops.models.secret.SecretTextField(blank=True, default="")),
                ("ssh_key_file", models.CharField(blank=True, max_length=500)),
                ("host_key", models.TextField(blank=True)),
                ("host_key_accepted_by", models.CharField(blank=True, max_length=150)),
                ("host_key_accepted_at", models.DateTimeField(blank=True, null=True)),
                (
                    "certificate_name",
                    models.CharField(
                        blank=True,
                        max_length=253,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[a-z0-9][a-z0-9:._-]{0,252}\\Z", "Use a host name or IP address in lower case."
                            )
                        ],
                    ),
                ),
                ("certificate_since", models.DateTimeField(blank=True, null=True)),
                ("certificate_until", models.DateTimeField(blank=True, null=True)),
                ("sudo", models.BooleanField(default=False)),
                (
                    "work_dir",
                    models.CharField(
                        default="/var/lib/dbops",
                        max_length=500,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A/[^\\0\\n\\r]*\\Z", "Use an absolute path without line breaks."
                            )
                        ],
                    ),
                ),
                (
                    "authorized_keys_file",
                    models.CharField(
                        blank=True,
                        max_length=500,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A/[^\\0\\n\\r]*\\Z", "Use an absolute path without line breaks."
                            )
                        ],
                    ),
                ),
                (
                    "stream_address",
                    models.CharField(
                        blank=True,
                        max_length=253,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9:.\\[\\]_-]{1,253}\\Z", "This is not a host name or IP address."
                            )
                        ],
                    ),
                ),
                (
                    "jump_host",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="hosts_behind",
                        to="dbops.host",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Instance",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "admin_user",
                    models.CharField(
                        blank=True,
                        default="",
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("admin_password", dbops.models.secret.SecretTextField(blank=True, default="")),
                (
                    "local_user",
                    models.CharField(
                        blank=True,
                        default="",
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("local_password", dbops.models.secret.SecretTextField(blank=True, default="")),
                (
                    "replication_user",
                    models.CharField(
                        blank=True,
                        default="",
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("replication_password", dbops.models.secret.SecretTextField(blank=True, default="")),
                (
                    "backup_user",
                    models.CharField(
                        blank=True,
                        default="",
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("backup_password", dbops.models.secret.SecretTextField(blank=True, default="")),
                (
                    "load_user",
                    models.CharField(
                        blank=True,
                        default="",
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("load_password", dbops.models.secret.SecretTextField(blank=True, default="")),
                (
                    "name",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\\Z",
                                "Use at most 63 letters, digits, dots, dashes and underscores. Start with a letter or digit.",
                            )
                        ],
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("primary", "primary"),
                            ("replica", "replica"),
                            ("backup", "backup"),
                            ("tidb", "TiDB node"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "address",
                    models.CharField(
                        max_length=253,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9:.\\[\\]_-]{1,253}\\Z", "This is not a host name or IP address."
                            )
                        ],
                    ),
                ),
                ("port", models.PositiveIntegerField(default=3306)),
                (
                    "datadir",
                    models.CharField(
                        default="/var/lib/mysql",
                        max_length=500,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A/[^\\0\\n\\r]*\\Z", "Use an absolute path without line breaks."
                            )
                        ],
                    ),
                ),
                (
                    "defaults_file",
                    models.CharField(
                        default="/etc/mysql/my.cnf",
                        max_length=500,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A/[^\\0\\n\\r]*\\Z", "Use an absolute path without line breaks."
                            )
                        ],
                    ),
                ),
                (
                    "os_user",
                    models.CharField(
                        default="mysql",
                        max_length=32,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                (
                    "group_suffix",
                    models.CharField(
                        blank=True,
                        max_length=64,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                (
                    "replication_tls",
                    models.CharField(
                        blank=True,
                        choices=[("off", "off"), ("on", "on"), ("verify", "on, verify the server's certificate")],
                        max_length=8,
                    ),
                ),
                (
                    "replication_tls_ca",
                    models.CharField(
                        blank=True,
                        max_length=500,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A/[^\\0\\n\\r]*\\Z", "Use an absolute path without line breaks."
                            )
                        ],
                    ),
                ),
                ("replication_delay_seconds", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "systemd_unit",
                    models.CharField(
                        blank=True,
                        max_length=200,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                (
                    "start_command",
                    models.CharField(blank=True, max_length=500, validators=[dbops.models.fleet.validate_command]),
                ),
                (
                    "stop_command",
                    models.CharField(blank=True, max_length=500, validators=[dbops.models.fleet.validate_command]),
                ),
                (
                    "primary_slot",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Case(
                            models.When(role=models.Value("primary"), then=models.F("cluster_id")),
                            default=models.Value(None),
                        ),
                        output_field=models.BigIntegerField(null=True),
                        unique=True,
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="instances", to="dbops.cluster"
                    ),
                ),
                (
                    "host",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="instances", to="dbops.host"
                    ),
                ),
            ],
            options={
                "ordering": ["cluster__name", "name"],
            },
        ),
        migrations.CreateModel(
            name="ClockStep",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("before", models.DateTimeField()),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="ProcessHeartbeat",
            fields=[
                ("name", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("dropped_messages", models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sequence", models.BigIntegerField(unique=True)),
                ("previous", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
                ("at", models.DateTimeField(db_index=True)),
                ("actor", models.CharField(max_length=150)),
                ("action", models.CharField(max_length=60)),
                ("subject", models.CharField(max_length=200)),
                ("instance", models.CharField(blank=True, max_length=200)),
                ("cluster", models.CharField(blank=True, max_length=200)),
                ("outcome", models.CharField(blank=True, max_length=20)),
                ("reason", models.TextField(blank=True)),
                ("address", models.CharField(blank=True, max_length=64)),
                ("request", models.CharField(blank=True, max_length=64)),
                ("detail", models.JSONField(default=dict)),
            ],
            options={
                "ordering": ["-sequence"],
                "indexes": [
                    models.Index(fields=["actor", "sequence"], name="dbops_audit_actor"),
                    models.Index(fields=["action", "sequence"], name="dbops_audit_action"),
                    models.Index(fields=["subject", "sequence"], name="dbops_audit_subject"),
                    models.Index(fields=["instance", "sequence"], name="dbops_audit_instance"),
                    models.Index(fields=["cluster", "sequence"], name="dbops_audit_cluster"),
                    models.Index(fields=["outcome", "sequence"], name="dbops_audit_outcome"),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditName",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("column", models.CharField(max_length=10)),
                ("name", models.CharField(max_length=200)),
                ("folded", models.CharField(max_length=600)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("column", "name"), name="dbops_audit_name")],
            },
        ),
        migrations.CreateModel(
            name="BackupRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.CharField(max_length=32, unique=True)),
                ("waiting_for", models.CharField(blank=True, max_length=500)),
                ("checkpoint", dbops.models.phrases.PhrasesField(default=dict)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("cancel_requested_by", models.CharField(blank=True, max_length=150)),
                ("revision", models.BigIntegerField(default=0)),
                ("run_token", models.CharField(blank=True, max_length=32)),
                ("lease_owner", models.CharField(blank=True, max_length=64)),
                ("lease_until", models.DateTimeField(null=True)),
                ("fence", models.BigIntegerField(default=0)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("next_tick_at", models.DateTimeField(db_index=True, null=True)),
                ("unreachable_since", models.DateTimeField(null=True)),
                (
                    "origin",
                    models.CharField(
                        choices=[("observed", "observed"), ("reported", "reported"), ("managed", "managed")],
                        max_length=10,
                    ),
                ),
                ("method", models.CharField(choices=[("dump", "dump"), ("physical", "physical")], max_length=10)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("lost", "lost"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                            ("ended", "ended"),
                            ("missed", "missed"),
                        ],
                        db_index=True,
                        max_length=10,
                    ),
                ),
                ("due_at", models.DateTimeField(null=True)),
                ("queued_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(db_index=True, null=True)),
                ("last_seen_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(db_index=True, null=True)),
                ("path", models.CharField(blank=True, max_length=1000)),
                ("bytes_written", models.BigIntegerField(null=True)),
                ("exit_status", models.IntegerField(null=True)),
                ("flags", models.JSONField(default=list)),
                ("report_key", models.CharField(max_length=64, null=True, unique=True)),
                ("evidence", models.JSONField(default=dict)),
                ("progress", models.JSONField(default=dict)),
                ("removed_at", models.DateTimeField(null=True)),
                ("outcome", models.TextField(blank=True)),
                ("outcome_phrase", dbops.models.phrases.PhraseField(editable=False, null=True)),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "schedule",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="runs",
                        to="dbops.backupschedule",
                    ),
                ),
                (
                    "instance",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="backup_runs", to="dbops.instance"
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        migrations.CreateModel(
            name="BackupEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("level", models.CharField(max_length=10)),
                ("text", models.TextField()),
                ("text_phrase", dbops.models.phrases.PhraseField(editable=False, null=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="dbops.backuprun"
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
        migrations.CreateModel(
            name="AccessToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\\Z",
                                "Use at most 63 letters, digits, dots, dashes and underscores. Start with a letter or digit.",
                            )
                        ],
                    ),
                ),
                (
                    "purpose",
                    models.CharField(
                        choices=[
                            ("report", "report"),
                            ("calendar", "calendar"),
                            ("metrics", "metrics"),
                            ("api", "api"),
                        ],
                        max_length=10,
                    ),
                ),
                ("prefix", models.CharField(max_length=8)),
                ("digest", models.CharField(max_length=64, unique=True)),
                (
                    "scope",
                    models.CharField(blank=True, choices=[("read", "read"), ("operate", "operate")], max_length=10),
                ),
                ("is_for_all_clusters", models.BooleanField(default=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("created_by", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="dbops.cluster",
                    ),
                ),
                ("clusters", models.ManyToManyField(blank=True, related_name="+", to="dbops.cluster")),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="KeptAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=64)),
                ("digest", models.CharField(max_length=64)),
                ("begun_at", models.DateTimeField(db_index=True)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("body", models.TextField(blank=True)),
                (
                    "token",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="dbops.accesstoken"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("token", "key"), name="one_answer_for_each_key")],
            },
        ),
        migrations.CreateModel(
            name="CountedDays",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateField()),
                ("until", models.DateField(db_index=True)),
                ("rules", models.PositiveIntegerField()),
                ("revision", models.BigIntegerField(default=0)),
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="gap_count", to="dbops.cluster"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StrictPlace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("host", models.TextField()),
                ("datadir", models.CharField(max_length=500)),
                ("port", models.PositiveIntegerField()),
                ("cluster", models.CharField(max_length=63)),
                ("until", models.DateTimeField()),
                ("approval_count", models.PositiveSmallIntegerField(default=1)),
                ("approvers_only", models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name="ClusterRole",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(
                        choices=[("operator", "operator"), ("approver", "approver"), ("admin", "admin")], max_length=10
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="roles", to="dbops.cluster"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="cluster_roles",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user", "cluster", "role"), name="cluster_role_once")],
            },
        ),
        migrations.CreateModel(
            name="GivenPassword",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="given_password",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LoginSession",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("session_key", models.CharField(db_index=True, max_length=40)),
                ("address", models.CharField(blank=True, max_length=45)),
                ("browser", models.CharField(blank=True, max_length=300)),
                ("method", models.CharField(max_length=40)),
                ("started_at", models.DateTimeField(db_index=True)),
                ("last_used_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="login_sessions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="FailedAttempts",
            fields=[
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("account", models.CharField(blank=True, db_index=True, max_length=64)),
                ("count", models.PositiveIntegerField()),
                ("since", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="ChosenLanguage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.CharField(max_length=10)),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="chosen_language",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DefaultView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("query", models.CharField(max_length=1000)),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="default_view",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Discovery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("requested_by", models.CharField(max_length=150)),
                ("requested_at", models.DateTimeField()),
                (
                    "address",
                    models.CharField(
                        max_length=253,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9:.\\[\\]_-]{1,253}\\Z", "This is not a host name or IP address."
                            )
                        ],
                    ),
                ),
                ("port", models.PositiveIntegerField(default=3306)),
                (
                    "user",
                    models.CharField(
                        blank=True,
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("password", dbops.models.secret.SecretTextField(blank=True, default="")),
                (
                    "status",
                    models.CharField(
                        choices=[("queued", "queued"), ("running", "running"), ("done", "done"), ("failed", "failed")],
                        db_index=True,
                        max_length=10,
                    ),
                ),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("result", models.JSONField(default=dict)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                (
                    "cluster",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="dbops.cluster"
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        migrations.CreateModel(
            name="StorageAttestation",
            fields=[
                (
                    "instance",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="attestation",
                        serialize=False,
                        to="dbops.instance",
                    ),
                ),
                ("kind", models.CharField(max_length=10)),
                ("reference", models.CharField(max_length=500)),
                ("storage", models.TextField()),
                ("review_on", models.DateField(null=True)),
                ("attested_by", models.CharField(max_length=150)),
                ("attested_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
        migrations.CreateModel(
            name="ServerIdentity",
            fields=[
                (
                    "instance",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="identity",
                        serialize=False,
                        to="dbops.instance",
                    ),
                ),
                ("identity", models.CharField(max_length=100)),
                ("files", models.CharField(blank=True, default="", max_length=100)),
                ("noted_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="ConnectionTest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(choices=[("ssh", "SSH"), ("mysql", "MySQL"), ("stream", "stream")], max_length=10),
                ),
                ("uid", models.CharField(max_length=32, unique=True)),
                ("slot", models.CharField(max_length=100, null=True, unique=True)),
                ("requested_by", models.CharField(max_length=150)),
                ("requested_at", models.DateTimeField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("passed", "passed"),
                            ("failed", "failed"),
                            ("unknown", "unknown"),
                        ],
                        db_index=True,
                        max_length=10,
                    ),
                ),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("result", dbops.models.phrases.PhrasesField(default=dict)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                (
                    "host",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="tests", to="dbops.host"
                    ),
                ),
                (
                    "source_host",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="dbops.host"
                    ),
                ),
                (
                    "instance",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tests",
                        to="dbops.instance",
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        migrations.AddField(
            model_name="backupschedule",
            name="instance",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="backup_schedules", to="dbops.instance"
            ),
        ),
        migrations.CreateModel(
            name="InstancePeriod",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=63)),
                ("role", models.CharField(max_length=10)),
                ("state", models.CharField(max_length=20)),
                ("because", models.CharField(blank=True, max_length=300)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="periods", to="dbops.cluster"
                    ),
                ),
                (
                    "instance",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="periods",
                        to="dbops.instance",
                    ),
                ),
            ],
            options={
                "ordering": ["started_at", "pk"],
            },
        ),
        migrations.CreateModel(
            name="InventorySource",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\\Z",
                                "Use at most 63 letters, digits, dots, dashes and underscores. Start with a letter or digit.",
                            )
                        ],
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("csv", "CSV"),
                            ("ansible", "Ansible"),
                            ("orchestrator", "orchestrator"),
                            ("replication-manager", "replication-manager"),
                        ],
                        max_length=20,
                    ),
                ),
                ("address", models.CharField(max_length=500)),
                (
                    "user",
                    models.CharField(
                        blank=True,
                        max_length=80,
                        validators=[
                            django.core.validators.RegexValidator("\\A[^\\0\\n\\r]*\\Z", "Line breaks are not allowed.")
                        ],
                    ),
                ),
                ("secret", dbops.models.secret.SecretTextField(blank=True)),
                ("ca", models.TextField(blank=True)),
                (
                    "every_minutes",
                    models.PositiveIntegerField(
                        default=60,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10080),
                        ],
                    ),
                ),
                ("created_by", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField()),
                ("next_read_at", models.DateTimeField(db_index=True)),
                ("read_at", models.DateTimeField(null=True)),
                ("listing", dbops.models.phrases.PhrasesField(default=dict)),
                ("failed_at", models.DateTimeField(null=True)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="IgnoredDifference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.CharField(max_length=20)),
                ("server", models.CharField(max_length=63)),
                ("listed", models.CharField(blank=True, max_length=300)),
                ("known", models.CharField(blank=True, max_length=300)),
                ("ignored_by", models.CharField(max_length=150)),
                ("ignored_at", models.DateTimeField()),
                ("reason", models.TextField()),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="ignored", to="dbops.inventorysource"
                    ),
                ),
            ],
            options={
                "ordering": ["server", "code"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("source", "code", "server"), name="one_ignored_difference_of_a_kind"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Maintenance",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField(blank=True, null=True)),
                ("reason", models.CharField(max_length=300)),
                ("created_by", models.CharField(max_length=150)),
                ("marked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="maintenances", to="dbops.cluster"
                    ),
                ),
            ],
            options={
                "ordering": ["-starts_at"],
            },
        ),
        migrations.CreateModel(
            name="Rebuild",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.CharField(max_length=32, unique=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("waiting_for", models.CharField(blank=True, max_length=500)),
                ("checkpoint", dbops.models.phrases.PhrasesField(default=dict)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("cancel_requested_by", models.CharField(blank=True, max_length=150)),
                ("revision", models.BigIntegerField(default=0)),
                ("run_token", models.CharField(blank=True, max_length=32)),
                ("lease_owner", models.CharField(blank=True, max_length=64)),
                ("lease_until", models.DateTimeField(null=True)),
                ("fence", models.BigIntegerField(default=0)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("next_tick_at", models.DateTimeField(db_index=True, null=True)),
                ("unreachable_since", models.DateTimeField(null=True)),
                ("request_key", models.CharField(max_length=64, unique=True)),
                ("method", models.CharField(max_length=16)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                            ("expired", "expired"),
                            ("lost", "lost"),
                        ],
                        db_index=True,
                        max_length=10,
                    ),
                ),
                ("priority", models.IntegerField(default=0)),
                ("reason", models.TextField()),
                ("requested_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(db_index=True, null=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("plan", dbops.models.phrases.PhrasesField()),
                ("plan_fingerprint", models.CharField(max_length=64)),
                ("not_before", models.DateTimeField(null=True)),
                ("stream_rate", models.BigIntegerField(null=True)),
                ("sweep_due_at", models.DateTimeField(db_index=True, null=True)),
                (
                    "approval",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("waiting", "waiting"),
                            ("approved", "approved"),
                            ("declined", "declined"),
                            ("overridden", "overridden"),
                        ],
                        db_index=True,
                        max_length=10,
                    ),
                ),
                ("approval_by", models.CharField(blank=True, max_length=800)),
                ("approval_at", models.DateTimeField(null=True)),
                ("approval_reason", models.TextField(blank=True)),
                ("approval_count", models.PositiveSmallIntegerField(default=1)),
                ("approvers_only", models.BooleanField(default=False)),
                ("requested_login", models.CharField(blank=True, max_length=400)),
                ("ticket", models.CharField(blank=True, max_length=64)),
                (
                    "pending_status",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                            ("expired", "expired"),
                            ("lost", "lost"),
                        ],
                        max_length=10,
                    ),
                ),
                ("outcome", models.TextField(blank=True)),
                ("outcome_phrase", dbops.models.phrases.PhraseField(editable=False, null=True)),
                ("traced_at", models.DateTimeField(null=True)),
                (
                    "follows",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="followed_by",
                        to="dbops.rebuild",
                    ),
                ),
                (
                    "leader",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="followers",
                        to="dbops.rebuild",
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="rebuilds",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "requeue_schedule",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="dbops.backupschedule",
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="rebuilds_read", to="dbops.instance"
                    ),
                ),
                (
                    "start_after_run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="awaited_by",
                        to="dbops.backuprun",
                    ),
                ),
                (
                    "target",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="rebuilds", to="dbops.instance"
                    ),
                ),
                (
                    "target_slot",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="active_rebuild",
                        to="dbops.instance",
                    ),
                ),
            ],
            options={
                "ordering": ["-requested_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="RebuildApproval",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("login", models.CharField(blank=True, max_length=400)),
                ("reason", models.TextField(blank=True)),
                ("at", models.DateTimeField()),
                (
                    "rebuild",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="approvals", to="dbops.rebuild"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
                "constraints": [models.UniqueConstraint(fields=("rebuild", "user"), name="rebuild_approval_once")],
            },
        ),
        migrations.CreateModel(
            name="Hold",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "purpose",
                    models.CharField(
                        choices=[("source", "source"), ("target", "target"), ("backup", "backup")], max_length=10
                    ),
                ),
                ("taken_at", models.DateTimeField()),
                (
                    "backup_run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="holds",
                        to="dbops.backuprun",
                    ),
                ),
                (
                    "instance",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="hold", to="dbops.instance"
                    ),
                ),
                (
                    "rebuild",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="holds", to="dbops.rebuild"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ExecutedCommand",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=80)),
                ("step", models.CharField(blank=True, max_length=40)),
                ("place", models.CharField(max_length=80)),
                ("text", models.TextField()),
                ("started_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
                ("exit_status", models.IntegerField(null=True)),
                ("output", models.TextField(blank=True)),
                (
                    "rebuild",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="commands", to="dbops.rebuild"
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
        migrations.CreateModel(
            name="RebuildEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("step", models.CharField(blank=True, max_length=40)),
                ("host", models.CharField(blank=True, max_length=63)),
                (
                    "level",
                    models.CharField(
                        choices=[("info", "info"), ("warning", "warning"), ("error", "error")], max_length=10
                    ),
                ),
                ("text", models.TextField()),
                ("text_phrase", dbops.models.phrases.PhraseField(editable=False, null=True)),
                (
                    "rebuild",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="dbops.rebuild"
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
        migrations.CreateModel(
            name="RebuildSample",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("at", models.DateTimeField()),
                ("step", models.CharField(max_length=40)),
                ("bytes", models.BigIntegerField(null=True)),
                ("disk_read_bytes", models.BigIntegerField(null=True)),
                ("disk_written_bytes", models.BigIntegerField(null=True)),
                ("source_lag_seconds", models.FloatField(null=True)),
                (
                    "rebuild",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="samples", to="dbops.rebuild"
                    ),
                ),
            ],
            options={
                "ordering": ["rebuild_id", "number"],
            },
        ),
        migrations.CreateModel(
            name="RebuildStep",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveSmallIntegerField()),
                ("name", models.CharField(max_length=40)),
                ("title", models.CharField(max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("running", "running"),
                            ("done", "done"),
                            ("failed", "failed"),
                            ("skipped", "skipped"),
                            ("cancelled", "cancelled"),
                        ],
                        max_length=10,
                    ),
                ),
                ("predicted_seconds", models.FloatField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("progress", dbops.models.phrases.PhrasesField(default=dict)),
                ("result", dbops.models.phrases.PhrasesField(default=dict)),
                (
                    "rebuild",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="steps", to="dbops.rebuild"
                    ),
                ),
            ],
            options={
                "ordering": ["rebuild_id", "position"],
            },
        ),
        migrations.CreateModel(
            name="RestoreTest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.CharField(max_length=32, unique=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("waiting_for", models.CharField(blank=True, max_length=500)),
                ("checkpoint", dbops.models.phrases.PhrasesField(default=dict)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("cancel_requested_by", models.CharField(blank=True, max_length=150)),
                ("revision", models.BigIntegerField(default=0)),
                ("run_token", models.CharField(blank=True, max_length=32)),
                ("lease_owner", models.CharField(blank=True, max_length=64)),
                ("lease_until", models.DateTimeField(null=True)),
                ("fence", models.BigIntegerField(default=0)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("next_tick_at", models.DateTimeField(db_index=True, null=True)),
                ("unreachable_since", models.DateTimeField(null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("lost", "lost"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                            ("ended", "ended"),
                            ("missed", "missed"),
                        ],
                        db_index=True,
                        max_length=10,
                    ),
                ),
                ("requested_by", models.CharField(blank=True, max_length=150)),
                ("requested_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(db_index=True, null=True)),
                ("run_slot", models.BigIntegerField(null=True, unique=True)),
                ("host_slot", models.BigIntegerField(null=True, unique=True)),
                ("steps", models.JSONField(default=list)),
                ("tables_checked", models.IntegerField(null=True)),
                ("rows_counted", models.BigIntegerField(null=True)),
                ("result", models.JSONField(default=dict)),
                ("has_leftovers", models.BooleanField(default=False)),
                (
                    "host",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="restore_tests", to="dbops.host"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="restore_tests", to="dbops.backuprun"
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="restore_tests", to="dbops.instance"
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        migrations.CreateModel(
            name="LoadTest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.CharField(max_length=32, unique=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("waiting_for", models.CharField(blank=True, max_length=500)),
                ("checkpoint", dbops.models.phrases.PhrasesField(default=dict)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("cancel_requested_by", models.CharField(blank=True, max_length=150)),
                ("revision", models.BigIntegerField(default=0)),
                ("run_token", models.CharField(blank=True, max_length=32)),
                ("lease_owner", models.CharField(blank=True, max_length=64)),
                ("lease_until", models.DateTimeField(null=True)),
                ("fence", models.BigIntegerField(default=0)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("next_tick_at", models.DateTimeField(db_index=True, null=True)),
                ("unreachable_since", models.DateTimeField(null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("lost", "lost"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                            ("ended", "ended"),
                            ("missed", "missed"),
                        ],
                        db_index=True,
                        max_length=10,
                    ),
                ),
                ("requested_by", models.CharField(max_length=150)),
                ("requested_at", models.DateTimeField()),
                ("request_key", models.CharField(max_length=64, unique=True)),
                ("reason", models.CharField(max_length=500)),
                ("finished_at", models.DateTimeField(db_index=True, null=True)),
                ("host_slot", models.BigIntegerField(null=True, unique=True)),
                ("request", models.JSONField(default=dict)),
                ("plan", models.JSONField(default=dict)),
                ("fingerprint", models.CharField(max_length=64)),
                ("steps", models.JSONField(default=list)),
                ("report", models.JSONField(default=dict)),
                ("has_leftovers", models.BooleanField(default=False)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="load_tests", to="dbops.cluster"
                    ),
                ),
                (
                    "generator_host",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="generated_load_tests",
                        to="dbops.host",
                    ),
                ),
                (
                    "host",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="load_tests", to="dbops.host"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="load_tests",
                        to="dbops.backuprun",
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="load_tests", to="dbops.instance"
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
                "indexes": [models.Index(fields=["cluster", "status"], name="dbops_load_test_cluster")],
            },
        ),
        migrations.CreateModel(
            name="LoadTestEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("level", models.CharField(max_length=10)),
                ("text", models.TextField()),
                ("text_phrase", dbops.models.phrases.PhraseField(editable=False, null=True)),
                (
                    "load_test",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="dbops.loadtest"
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
        migrations.CreateModel(
            name="LoadTestRound",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("result", models.JSONField()),
                (
                    "load_test",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rounds", to="dbops.loadtest"
                    ),
                ),
            ],
            options={
                "ordering": ["number"],
                "constraints": [
                    models.UniqueConstraint(fields=("load_test", "number"), name="dbops_load_test_round_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="RowComparison",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.CharField(max_length=32, unique=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("waiting_for", models.CharField(blank=True, max_length=500)),
                ("checkpoint", dbops.models.phrases.PhrasesField(default=dict)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("cancel_requested_by", models.CharField(blank=True, max_length=150)),
                ("revision", models.BigIntegerField(default=0)),
                ("run_token", models.CharField(blank=True, max_length=32)),
                ("lease_owner", models.CharField(blank=True, max_length=64)),
                ("lease_until", models.DateTimeField(null=True)),
                ("fence", models.BigIntegerField(default=0)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("next_tick_at", models.DateTimeField(db_index=True, null=True)),
                ("unreachable_since", models.DateTimeField(null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("lost", "lost"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                            ("ended", "ended"),
                            ("missed", "missed"),
                        ],
                        db_index=True,
                        max_length=10,
                    ),
                ),
                ("queued_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
                ("cluster_slot", models.BigIntegerField(null=True, unique=True)),
                ("is_pausing", models.BooleanField(default=False)),
                ("paused_at", models.DateTimeField(null=True)),
                ("differing", models.IntegerField(default=0)),
                ("is_current", models.BooleanField(default=True)),
                (
                    "rebuild",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="row_comparison",
                        to="dbops.rebuild",
                    ),
                ),
                (
                    "target",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="row_comparisons",
                        to="dbops.instance",
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        migrations.CreateModel(
            name="TopologyDifference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.CharField(max_length=40)),
                ("subject", models.CharField(max_length=63)),
                ("about", models.CharField(blank=True, max_length=500)),
                ("detail", models.TextField()),
                ("matters", models.BooleanField()),
                ("first_seen_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField()),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("gone_at", models.DateTimeField(null=True)),
                ("accepted_at", models.DateTimeField(null=True)),
                ("accepted_by", models.CharField(blank=True, max_length=150)),
                (
                    "accepted_as",
                    models.CharField(blank=True, choices=[("roles", "roles"), ("intended", "intended")], max_length=10),
                ),
                ("reason", models.TextField(blank=True)),
                ("open_key", models.CharField(max_length=64, null=True, unique=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="differences", to="dbops.cluster"
                    ),
                ),
            ],
            options={
                "ordering": ["-matters", "first_seen_at", "pk"],
            },
        ),
        migrations.CreateModel(
            name="GapDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("gap", models.CharField(max_length=20)),
                ("cause", models.CharField(max_length=20)),
                ("is_planned", models.BooleanField()),
                ("microseconds", models.BigIntegerField()),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="dbops.cluster",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["cluster", "gap", "cause", "is_planned", "day", "microseconds"],
                        name="dbops_gap_day_sums",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("cluster", "day", "gap", "cause", "is_planned"),
                        name="one_sum_for_each_kind_of_gap_of_a_day",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="InstanceState",
            fields=[
                (
                    "instance",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="state",
                        serialize=False,
                        to="dbops.instance",
                    ),
                ),
                ("observed_at", models.DateTimeField(null=True)),
                ("record", models.JSONField(default=dict)),
                ("probe_due_at", models.DateTimeField(db_index=True)),
                ("host_read_since", models.DateTimeField(null=True)),
                ("host_read_at", models.DateTimeField(null=True)),
                ("problem", models.CharField(blank=True, default="", max_length=300)),
                ("stopped", models.CharField(blank=True, default="", max_length=300)),
                ("lag_seconds", models.FloatField(null=True)),
                ("is_read_only", models.BooleanField(default=False)),
                ("gtid_seen", models.TextField(blank=True, default="")),
                ("gtid_lost", models.TextField(blank=True, default="")),
                (
                    "period",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="dbops.instanceperiod",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="instance",
            constraint=models.UniqueConstraint(fields=("host", "datadir"), name="one_instance_for_each_data_directory"),
        ),
        migrations.AddConstraint(
            model_name="instance",
            constraint=models.UniqueConstraint(fields=("address", "port"), name="one_instance_for_each_address"),
        ),
        migrations.AddIndex(
            model_name="backuprun",
            index=models.Index(fields=["instance", "started_at"], name="dbops_run_of_instance"),
        ),
        migrations.AddConstraint(
            model_name="backuprun",
            constraint=models.UniqueConstraint(
                fields=("schedule", "due_at"), name="one_run_for_each_due_time_of_a_schedule"
            ),
        ),
        migrations.AddIndex(
            model_name="instanceperiod",
            index=models.Index(fields=["cluster", "started_at"], name="dbops_period_of_cluster"),
        ),
        migrations.AddIndex(
            model_name="rebuild",
            index=models.Index(
                fields=[
                    "status",
                    "expires_at",
                    "source",
                    "target",
                    "method",
                    "priority",
                    "requested_at",
                    "not_before",
                    "leader",
                    "waiting_for",
                ],
                name="dbops_rebuild_scheduler",
            ),
        ),
        migrations.AddConstraint(
            model_name="hold",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("backup_run__isnull", False), ("rebuild", None)),
                    models.Q(("backup_run", None), ("rebuild__isnull", False)),
                    _connector="OR",
                ),
                name="hold_has_one_owner",
            ),
        ),
        migrations.AddConstraint(
            model_name="executedcommand",
            constraint=models.UniqueConstraint(fields=("rebuild", "key"), name="rebuild_command_key_unique"),
        ),
        migrations.AddConstraint(
            model_name="rebuildsample",
            constraint=models.UniqueConstraint(fields=("rebuild", "number"), name="rebuild_sample_number_unique"),
        ),
        migrations.AddConstraint(
            model_name="rebuildstep",
            constraint=models.UniqueConstraint(fields=("rebuild", "name"), name="rebuild_step_name_unique"),
        ),
        migrations.AddIndex(
            model_name="restoretest",
            index=models.Index(fields=["source", "status", "finished_at"], name="dbops_restore_test_source"),
        ),
        migrations.AddIndex(
            model_name="rowcomparison",
            index=models.Index(fields=["is_current", "differing"], name="dbops_row_comparison_problem"),
        ),
        migrations.CreateModel(
            name="CapacityForecast",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("computed_at", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField(db_index=True)),
                ("limits", models.JSONField(default=list)),
                ("soonest", models.JSONField(null=True)),
                ("first_at", models.DateTimeField(null=True)),
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="capacity_forecast",
                        to="dbops.cluster",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CapacityReading",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("is_daily", models.BooleanField(default=False)),
                ("schemas", models.BigIntegerField(null=True)),
                ("tables", models.BigIntegerField(null=True)),
                ("partitions", models.BigIntegerField(null=True)),
                ("data_bytes", models.BigIntegerField(null=True)),
                ("index_bytes", models.BigIntegerField(null=True)),
                ("file_bytes", models.BigIntegerField(null=True)),
                ("backup_bytes", models.BigIntegerField(null=True)),
                ("largest", models.JSONField(null=True)),
                ("auto_increment", models.JSONField(null=True)),
                ("open_tables", models.BigIntegerField(null=True)),
                ("open_definitions", models.BigIntegerField(null=True)),
                ("open_files", models.BigIntegerField(null=True)),
                ("table_open_cache", models.BigIntegerField(null=True)),
                ("table_open_cache_instances", models.BigIntegerField(null=True)),
                ("table_definition_cache", models.BigIntegerField(null=True)),
                ("innodb_open_files", models.BigIntegerField(null=True)),
                ("open_files_limit", models.BigIntegerField(null=True)),
                ("connections", models.BigIntegerField(null=True)),
                ("connections_peak", models.BigIntegerField(null=True)),
                ("max_connections", models.BigIntegerField(null=True)),
                ("binlog_bytes", models.BigIntegerField(null=True)),
                ("binlog_expire_seconds", models.BigIntegerField(null=True)),
                ("redo_capacity_bytes", models.BigIntegerField(null=True)),
                ("disk_bytes", models.BigIntegerField(null=True)),
                ("disk_free_bytes", models.BigIntegerField(null=True)),
                ("data_dir_bytes", models.BigIntegerField(null=True)),
                ("kept_bytes", models.BigIntegerField(null=True)),
                ("uptime_seconds", models.BigIntegerField(null=True)),
                ("questions", models.BigIntegerField(null=True)),
                ("writes", models.BigIntegerField(null=True)),
                ("redo_bytes", models.BigIntegerField(null=True)),
                ("cache_misses", models.BigIntegerField(null=True)),
                ("questions_per_second", models.FloatField(null=True)),
                ("writes_per_second", models.FloatField(null=True)),
                ("redo_bytes_per_second", models.FloatField(null=True)),
                ("cache_misses_per_second", models.FloatField(null=True)),
                (
                    "instance",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="capacity",
                        to="dbops.instance",
                    ),
                ),
            ],
            options={
                "ordering": ["at", "pk"],
                "indexes": [models.Index(fields=["is_daily", "at"], name="dbops_capacity_to_thin")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("instance", "at"), name="one_capacity_reading_of_an_instance_at_a_time"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CapacityThreshold",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=20)),
                ("value", models.BigIntegerField()),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="capacity_thresholds",
                        to="dbops.cluster",
                    ),
                ),
            ],
            options={
                "ordering": ["kind"],
                "constraints": [
                    models.UniqueConstraint(fields=("cluster", "kind"), name="one_capacity_threshold_of_a_kind")
                ],
            },
        ),
        migrations.CreateModel(
            name="WaitReading",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slot", models.BigIntegerField(null=True, unique=True)),
                ("seconds", models.PositiveSmallIntegerField()),
                ("requested_by", models.CharField(max_length=150)),
                ("requested_at", models.DateTimeField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("first", "first reading"),
                            ("waiting", "waiting"),
                            ("second", "second reading"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("unknown", "unknown"),
                        ],
                        db_index=True,
                        max_length=10,
                    ),
                ),
                ("claimed_at", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("before", models.JSONField(default=dict)),
                ("result", models.JSONField(default=dict)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                (
                    "instance",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="dbops.instance",
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        migrations.CreateModel(
            name="DigestReading",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("schema", models.CharField(max_length=64)),
                ("slot", models.BigIntegerField(null=True, unique=True)),
                ("requested_by", models.CharField(max_length=150)),
                ("requested_at", models.DateTimeField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("unknown", "unknown"),
                        ],
                        db_index=True,
                        max_length=10,
                    ),
                ),
                ("claimed_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("result", models.JSONField(default=dict)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                (
                    "instance",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="dbops.instance",
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        # Not in a transaction: MariaDB would end it with the first trigger.
        migrations.CreateModel(
            name="NotificationChannel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("message", "message"), ("webhook", "webhook"), ("heartbeat", "heartbeat")],
                        max_length=10,
                    ),
                ),
                ("address", dbops.models.secret.SecretTextField()),
                ("shown", models.CharField(max_length=500)),
                ("ca", models.TextField(blank=True)),
                ("secret", dbops.models.secret.SecretTextField(blank=True)),
                ("old_secret", dbops.models.secret.SecretTextField(blank=True)),
                ("old_secret_until", models.DateTimeField(null=True)),
                ("every_minutes", models.PositiveIntegerField(null=True)),
                ("created_by", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField()),
                ("sent_at", models.DateTimeField(null=True)),
                ("sent_count", models.BigIntegerField(default=0)),
                ("failed_count", models.BigIntegerField(default=0)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                ("failed_at", models.DateTimeField(null=True)),
                ("next_try_at", models.DateTimeField()),
                ("lease_owner", models.CharField(blank=True, max_length=32)),
                ("lease_until", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="NotificationEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slot", models.CharField(max_length=200, null=True, unique=True)),
                ("kind", models.CharField(max_length=40)),
                ("cluster", models.CharField(blank=True, max_length=63)),
                ("subject", models.CharField(max_length=200)),
                ("detail", models.CharField(blank=True, max_length=300)),
                ("path", models.CharField(blank=True, max_length=300)),
                ("opened_at", models.DateTimeField(db_index=True)),
                ("reported_from", models.DateTimeField()),
                ("resolved_at", models.DateTimeField(null=True)),
                ("routed", models.CharField(blank=True, db_index=True, max_length=10)),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        migrations.CreateModel(
            name="NotificationWatch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("looked_at", models.DateTimeField(null=True)),
                ("lease_owner", models.CharField(blank=True, max_length=32)),
                ("lease_until", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="NotificationRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60, unique=True)),
                ("events", models.JSONField(default=list)),
                (
                    "minimum",
                    models.CharField(
                        choices=[("info", "info"), ("warning", "warning"), ("critical", "critical")], max_length=10
                    ),
                ),
                ("quiet_from", models.TimeField(null=True)),
                ("quiet_until", models.TimeField(null=True)),
                (
                    "digest",
                    models.CharField(
                        choices=[("none", "none"), ("hourly", "hourly"), ("daily", "daily")], max_length=10
                    ),
                ),
                ("created_by", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField()),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rules",
                        to="dbops.notificationchannel",
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="dbops.cluster"
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="NotificationDelivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "open"), ("resolved", "resolved"), ("happened", "happened")], max_length=10
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[("waiting", "Waiting"), ("sent", "Sent"), ("failed", "Failed")],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("is_held", models.BooleanField(default=False)),
                ("message", models.CharField(blank=True, max_length=40)),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("ended_at", models.DateTimeField(null=True)),
                ("error", dbops.models.phrases.PhrasesField(default=dict)),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="dbops.notificationchannel",
                    ),
                ),
                (
                    "event",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="dbops.notificationevent",
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="dbops.notificationrule",
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
                "indexes": [models.Index(fields=["status", "channel", "due_at"], name="dbops_delivery_due")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("rule", "event", "state"), name="one_delivery_of_a_state_for_each_rule"
                    )
                ],
            },
        ),
        migrations.RunPython(create_triggers, drop_triggers, atomic=False),
    ]
