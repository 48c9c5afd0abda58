"""The inventory (clusters, hosts, instances) and the latest facts of each instance."""

import shlex
from datetime import datetime
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Case, F, Value, When
from django.utils.translation import gettext_lazy as _

from dbops.engine.access.approval_rules import ApprovalRule
from dbops.engine.access.tickets import MOST_PATTERN, MOST_URL
from dbops.engine.facts import instance as facts
from dbops.engine.facts.age import age_seconds
from dbops.engine.facts.certificates import CertificateFacts
from dbops.engine.facts.summary import TEXT_CHARACTERS, summarize
from dbops.engine.states import Role

from .secret import SecretTextField, check_lines

name_validator = RegexValidator(
    r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z",
    _("Use at most 63 letters, digits, dots, dashes and underscores. Start with a letter or digit."),
)
address_validator = RegexValidator(r"\A[A-Za-z0-9:.\[\]_-]{1,253}\Z", _("This is not a host name or IP address."))
# One name, as OpenSSH compares it: no pattern of known_hosts.
certificate_name_validator = RegexValidator(
    r"\A[a-z0-9][a-z0-9:._-]{0,252}\Z", _("Use a host name or IP address in lower case.")
)
path_validator = RegexValidator(r"\A/[^\0\n\r]*\Z", _("Use an absolute path without line breaks."))
account_validator = RegexValidator(r"\A[^\0\n\r]*\Z", _("Line breaks are not allowed."))


def validate_command(value: str) -> None:
    """Accept a command that ``shlex`` can split and whose first word is an absolute path."""
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise ValidationError(_("The command cannot be read: %(problem)s."), params={"problem": error}) from error
    if value and (not words or not words[0].startswith("/") or "\0" in value or "\n" in value):
        raise ValidationError(_("Use a one-line command that starts with an absolute path."))


#: Jump hosts between the dashboard and a host. Each may take all its timeouts, and a probe ends after ``PATIENCE_SECONDS``.
MOST_JUMPS = 3
ACCOUNTS = ("admin", "local", "replication", "backup", "load")
#: They may log in by socket authentication instead of a password.
SOCKET_ACCOUNTS = ("local", "backup")
PASSWORDS = tuple(f"{account}_password" for account in ACCOUNTS)


class HasAccounts(models.Model):
    """Accounts of database servers: user and password of each; an empty user: none.

    ``local_*`` is the dashboard's account on the servers' sockets; none: ``admin_*``. ``local_*`` and ``backup_*`` without a password
    log in by socket authentication. ``load_*`` sends the inserts of a load test of TiDB.
    """

    admin_user = models.CharField(max_length=80, blank=True, default="", validators=[account_validator])
    admin_password = SecretTextField(blank=True, default="")
    local_user = models.CharField(max_length=80, blank=True, default="", validators=[account_validator])
    local_password = SecretTextField(blank=True, default="")
    replication_user = models.CharField(max_length=80, blank=True, default="", validators=[account_validator])
    replication_password = SecretTextField(blank=True, default="")
    backup_user = models.CharField(max_length=80, blank=True, default="", validators=[account_validator])
    backup_password = SecretTextField(blank=True, default="")
    load_user = models.CharField(max_length=80, blank=True, default="", validators=[account_validator])
    load_password = SecretTextField(blank=True, default="")

    class Meta:
        abstract = True


class Cluster(HasAccounts):
    """One primary and every instance that replicates from it, with their shared accounts.

    ``wanted_replicas``: required number of healthy instances besides the primary; ``None``: all of them.
    ``needs_approval``: rebuilds wait for the approval of ``approval_count`` other people; with ``approvers_only`` of approvers alone.
    ``ticket_pattern``: what the change ticket of a rebuild must match; empty: it needs none. ``ticket_url``: the address of a ticket.
    ``restore_test_host``: name of the host for restore tests; empty: the host that has the backup file.
    ``redundancy_goal_seconds``: target time to restore full redundancy; ``None``: the global setting.
    ``tls_ca``: CA certificate of the servers as PEM: the dashboard verifies theirs; empty: it does not.
    """

    name = models.CharField(max_length=63, unique=True, validators=[name_validator])
    write_addresses = models.JSONField(default=list, blank=True)
    wanted_replicas = models.PositiveSmallIntegerField(null=True, blank=True)
    needs_approval = models.BooleanField(default=False)
    approval_count = models.PositiveSmallIntegerField(default=1)
    approvers_only = models.BooleanField(default=False)
    ticket_pattern = models.CharField(max_length=MOST_PATTERN, blank=True)
    ticket_url = models.CharField(max_length=MOST_URL, blank=True)
    redundancy_goal_seconds = models.PositiveIntegerField(null=True, blank=True)
    restore_test_host = models.CharField(max_length=63, blank=True, validators=[name_validator])
    tls_ca = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def approval_rule(self) -> ApprovalRule:
        """How many people must approve a rebuild, and who they may be."""
        return ApprovalRule(self.approval_count, self.approvers_only) if self.needs_approval else ApprovalRule()


class Host(models.Model):
    """A machine reached by SSH. ``host_key`` is the pinned public key, empty until a person accepts one.

    ``certificate_name``: a host certificate for this name proves the host from then on, whatever its key; empty: the pinned key does.
    ``certificate_since``, ``certificate_until``: of the certificate that proved it last; no end: without an end. Only ``dbops.lifecycle``
    writes them.
    ``jump_host``: the host that opens the dashboard's connections to this one; it may have one itself.
    """

    name = models.CharField(max_length=63, unique=True, validators=[name_validator])
    ssh_address = models.CharField(max_length=253, validators=[address_validator])
    ssh_port = models.PositiveIntegerField(default=22)
    ssh_user = models.CharField(max_length=64, default="root", validators=[account_validator])
    ssh_private_key = SecretTextField(blank=True, default="", check_text=check_lines)
    ssh_key_file = models.CharField(max_length=500, blank=True)
    host_key = models.TextField(blank=True)
    host_key_accepted_by = models.CharField(max_length=150, blank=True)
    host_key_accepted_at = models.DateTimeField(null=True, blank=True)
    certificate_name = models.CharField(max_length=253, blank=True, validators=[certificate_name_validator])
    certificate_since = models.DateTimeField(null=True, blank=True)
    certificate_until = models.DateTimeField(null=True, blank=True)
    sudo = models.BooleanField(default=False)
    work_dir = models.CharField(max_length=500, default="/var/lib/dbops", validators=[path_validator])
    authorized_keys_file = models.CharField(max_length=500, blank=True, validators=[path_validator])
    stream_address = models.CharField(max_length=253, blank=True, validators=[address_validator])
    jump_host = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="hosts_behind")

    #: The certificate that proved the host at a connection that this object opened.
    seen_certificate: CertificateFacts | None = None

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Refuse a way in a circle and a long one, also of two changes at the same time: the caller locks all hosts."""
        hosts = Host.objects.order_by()
        jump, jumps, behind = self.jump_host_id, 0, [self.pk] if self.jump_host_id and self.pk else []
        while jump is not None and jumps <= MOST_JUMPS and jump != self.pk:
            jump, jumps = hosts.values_list("jump_host_id", flat=True).get(pk=jump), jumps + 1
        while jump is None and jumps <= MOST_JUMPS and behind:
            behind = list(hosts.filter(jump_host__in=behind).values_list("pk", flat=True))
            jumps += bool(behind)
        if jump is not None or jumps > MOST_JUMPS:
            raise ValidationError(
                {"jump_host": _("At most %(most)s jump hosts, and none twice.") % {"most": MOST_JUMPS}}
            )


class StrictPlace(models.Model):
    """A data directory that left a cluster which requires approval: its rebuilds need approval for some time.

    ``host``: its pinned key, or the machine that a probe found; a row each.
    """

    host = models.TextField()
    datadir = models.CharField(max_length=500)
    port = models.PositiveIntegerField()
    cluster = models.CharField(max_length=63)
    until = models.DateTimeField()
    approval_count = models.PositiveSmallIntegerField(default=1)
    approvers_only = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.datadir}, of {self.cluster} until {self.until}"


class Instance(HasAccounts):
    """One server process: address, role, and start and stop commands. Its accounts replace those of its cluster, each on its own.

    ``group_suffix``: of the option groups it reads besides ``[mysqld]``. ``replication_*``: how it shall replicate after a rebuild;
    empty: as before.
    """

    class Roles(models.TextChoices):
        PRIMARY = Role.PRIMARY.value, _("primary")
        REPLICA = Role.REPLICA.value, _("replica")
        BACKUP = Role.BACKUP.value, _("backup")
        TIDB = Role.TIDB.value, _("TiDB node")

    class ReplicationTls(models.TextChoices):
        OFF = "off", _("off")
        ON = "on", _("on")
        VERIFY = "verify", _("on, verify the server's certificate")

    name = models.CharField(max_length=63, unique=True, validators=[name_validator])
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="instances")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="instances")
    role = models.CharField(max_length=10, choices=Roles.choices)
    address = models.CharField(max_length=253, validators=[address_validator])
    port = models.PositiveIntegerField(default=3306)
    datadir = models.CharField(max_length=500, default="/var/lib/mysql", validators=[path_validator])
    defaults_file = models.CharField(max_length=500, default="/etc/mysql/my.cnf", validators=[path_validator])
    os_user = models.CharField(max_length=32, default="mysql", validators=[account_validator])
    systemd_unit = models.CharField(max_length=200, blank=True, validators=[account_validator])
    group_suffix = models.CharField(max_length=64, blank=True, validators=[account_validator])
    replication_tls = models.CharField(max_length=8, blank=True, choices=ReplicationTls.choices)
    replication_tls_ca = models.CharField(max_length=500, blank=True, validators=[path_validator])
    replication_delay_seconds = models.PositiveIntegerField(null=True, blank=True)
    start_command = models.CharField(max_length=500, blank=True, validators=[validate_command])
    stop_command = models.CharField(max_length=500, blank=True, validators=[validate_command])

    # The database enforces one primary per cluster on SQLite, PostgreSQL and MariaDB: MariaDB has no conditional
    # unique constraints, but a unique column can contain many NULLs.
    primary_slot = models.GeneratedField(
        expression=Case(When(role=Value(Role.PRIMARY.value), then=F("cluster_id")), default=Value(None)),
        output_field=models.BigIntegerField(null=True),
        db_persist=True,
        unique=True,
    )

    class Meta:
        ordering: ClassVar = ["cluster__name", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["host", "datadir"], name="one_instance_for_each_data_directory"),
            models.UniqueConstraint(fields=["address", "port"], name="one_instance_for_each_address"),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if bool(self.systemd_unit) == bool(self.start_command and self.stop_command):
            raise ValidationError(_("Set either a systemd unit, or both start and stop commands."))


class InstanceState(models.Model):
    """The latest facts of one instance, and when the next probe is due. Only the prober writes rows.

    ``host_read_since``: start of gapless readings of the host; earlier events can be unobserved.

    ``problem`` to ``is_read_only``: summary of the facts (``engine.facts.summary``), because reading the full records of
    thousands of rows would take the fleet page seconds. ``period``: the current period.

    ``gtid_seen``: the newest GTID set or position, kept while the server is down. ``gtid_lost``: the part that a later probe
    did not find, until a person or a rebuild confirms the data.
    """

    instance = models.OneToOneField(Instance, on_delete=models.CASCADE, related_name="state", primary_key=True)
    observed_at = models.DateTimeField(null=True)
    record = models.JSONField(default=dict)
    probe_due_at = models.DateTimeField(db_index=True)
    host_read_since = models.DateTimeField(null=True)
    host_read_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=TEXT_CHARACTERS, default="", blank=True)
    stopped = models.CharField(max_length=TEXT_CHARACTERS, default="", blank=True)
    lag_seconds = models.FloatField(null=True)
    is_read_only = models.BooleanField(default=False)
    period = models.ForeignKey("dbops.InstancePeriod", on_delete=models.SET_NULL, null=True, related_name="+")
    gtid_seen = models.TextField(default="", blank=True)
    gtid_lost = models.TextField(default="", blank=True)

    @staticmethod
    def columns(found: facts.InstanceFacts) -> dict[str, Any]:
        """Return every column that a probe fills. The caller removes characters that databases cannot store."""
        record = facts.to_record(found)
        return {"record": record, "observed_at": found.observed_at, **facts.to_record(summarize(found))}

    def facts(self) -> facts.InstanceFacts | None:
        """Return the facts of the last probe, ``None`` before the first."""
        return facts.from_record(facts.InstanceFacts, self.record) if self.record else None

    def age_seconds(self, now: datetime) -> float | None:
        """Return how old the facts are; ``None`` without facts, and if they are of the future."""
        return age_seconds(self.observed_at, now) if self.observed_at else None
