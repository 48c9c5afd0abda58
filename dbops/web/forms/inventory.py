"""Forms of the inventory. Secrets are never shown; an empty field keeps the stored secret."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, cast

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from dbops.engine.access.approval_rules import MOST_APPROVALS
from dbops.engine.phrases import phrase
from dbops.fleetfile import rules, sshkeys
from dbops.fleetfile.conflicts import (
    InventoryConflict,
    PlacedHost,
    PlacedInstance,
    PlacedObject,
    host_conflicts,
    instance_conflicts,
    jump_conflicts,
    name_conflicts,
)
from dbops.models import Cluster, Host, Instance
from dbops.models.fleet import ACCOUNTS, PASSWORDS, SOCKET_ACCOUNTS
from dbops.models.secret import is_set
from dbops.security.tls_authorities import first_to_end
from dbops.web.forms.inventory_base import InventoryForm
from dbops.web.forms.inventory_fields import AddressesField, MinutesField, SecretTextarea, secret_field, socket_field
from dbops.web.templatetags.phrases import sentence


class HostForm(InventoryForm):
    """A machine reached by SSH. Its host key has a page of its own."""

    secrets = ("ssh_private_key",)
    groups: ClassVar = {
        phrase("Host"): ("name", "ssh_address", "ssh_port", "ssh_user", "sudo", "jump_host", "certificate_name"),
        phrase("SSH key (file or pasted key)"): ("ssh_key_file", "ssh_private_key"),
        phrase("Paths and addresses"): ("work_dir", "authorized_keys_file", "stream_address"),
    }
    ssh_private_key = forms.CharField(
        label=_("Private key"), required=False, strip=False, max_length=16384, widget=SecretTextarea
    )

    class Meta:
        model = Host
        fields: ClassVar = [
            *("name", "ssh_address", "ssh_port", "ssh_user", "sudo", "jump_host", "ssh_key_file"),
            *("work_dir", "authorized_keys_file", "stream_address", "certificate_name"),
        ]
        labels: ClassVar = {
            "ssh_address": _("SSH address"),
            "ssh_port": _("SSH port"),
            "ssh_user": _("SSH user"),
            "ssh_key_file": _("Key file"),
            "sudo": _("Run commands as root with sudo -n"),
            "jump_host": _("Jump host"),
            "certificate_name": _("Certificate name"),
            "work_dir": _("Work directory"),
            "authorized_keys_file": _("Authorized keys file"),
            "stream_address": _("Stream address"),
        }
        help_texts: ClassVar = {
            "ssh_key_file": _("Path of a private key without a passphrase on the dashboard’s machine."),
            "sudo": _(
                "Install what “manage.py host gate NAME” and “manage.py host sudoers NAME” print on the host. "
                "The SSH user can then run nothing else as root."
            ),
            "jump_host": _(
                "Host of the inventory through which dbops connects to this one, and to the servers on it. Empty: directly."
            ),
            "certificate_name": _(
                "Name in the host’s SSH certificate. A valid certificate for it then proves the host at each connection, whatever its key. "
                "Empty: the accepted host key does."
            ),
            "work_dir": _("Directory for run directories and journals."),
            "authorized_keys_file": _(
                "File that the temporary key of a rebuild is added to. Empty: ~/.ssh/authorized_keys of the SSH user."
            ),
            "stream_address": _("Address at which other hosts reach this host by SSH. Empty: the SSH address."),
        }

    def clean_ssh_key_file(self) -> str:
        path: str = self.cleaned_data["ssh_key_file"]
        is_kept = isinstance(self.before, Host) and path == self.before.ssh_key_file
        if path and not is_kept and (problem := rules.key_file_outside(path)):
            raise ValidationError(sentence(problem), code="outside")
        return path

    def clean_ssh_private_key(self) -> str:
        return sshkeys.tidy_private_key(self.cleaned_data["ssh_private_key"])

    def clean_together(self, given: dict[str, Any]) -> None:
        key, key_file = given.get("ssh_private_key"), given.get("ssh_key_file")
        if "ssh_private_key" not in given or "ssh_key_file" not in given:
            return
        if key and key_file:
            self.add_error("ssh_private_key", _("Enter either a key file or a key, not both."))
        elif not key and not key_file:
            if not self.vault.keeps("ssh_private_key"):
                self.add_error("ssh_key_file", _("Enter a key file or paste a private key."))
            given["ssh_private_key"] = None

    def conflicts(self, given: dict[str, Any]) -> Iterator[InventoryConflict]:
        fleet, own = self._others()
        names = ("ssh_address", "ssh_port", "work_dir", "certificate_name")
        values = {name: given[name] for name in names if given.get(name)}
        new_name = given.get("name", "")
        jump = given["jump_host"].name if given.get("jump_host") else ""
        others = [
            replace(host, jump_host=new_name) if host.jump_host in own else host
            for host in fleet.placed_hosts(without=own)
        ]
        hosts = [*others, PlacedHost(new_name, None, self, jump_host=jump, **values)]
        yield from name_conflicts(hosts, "host")
        yield from host_conflicts(hosts)
        yield from jump_conflicts(hosts)
        own_instances = [item for item in fleet.placed_instances() if item.host in own]
        yield from instance_conflicts(own_instances, dict.fromkeys(own, hosts[-1]))


def _hosts_with_an_instance() -> list[str]:
    """Return the hosts that probes read: those with an instance."""
    return list(Host.objects.filter(instances__isnull=False).distinct().values_list("name", flat=True))


class AccountsForm(InventoryForm):
    """Accounts with a password, or without one for socket authentication."""

    secrets = PASSWORDS
    account_groups: ClassVar[dict[str, tuple[str, ...]]] = {
        phrase("Dashboard's account"): ("admin_user", "admin_password"),
        phrase("Dashboard's account on the hosts' sockets"): ("local_user", "local_socket", "local_password"),
        phrase("Replication account"): ("replication_user", "replication_password"),
        phrase("Backup account"): ("backup_user", "backup_socket", "backup_password"),
        phrase("Load test account (TiDB)"): ("load_user", "load_password"),
    }
    account_users: ClassVar = tuple(f"{account}_user" for account in ACCOUNTS)
    admin_password = secret_field()
    local_password = secret_field()
    replication_password = secret_field()
    backup_password = secret_field()
    load_password = secret_field()
    local_socket = socket_field()
    backup_socket = socket_field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for account in SOCKET_ACCOUNTS:
            user = getattr(self.before, f"{account}_user", "")
            if self.before and user:
                self.initial[f"{account}_socket"] = not is_set(self.before, f"{account}_password")

    def clean_together(self, given: dict[str, Any]) -> None:
        for account in ACCOUNTS:
            user, secret = given.get(f"{account}_user"), f"{account}_password"
            password, old_user = given.get(secret), getattr(self.before, f"{account}_user", "")
            by_socket = given.pop(f"{account}_socket", False)
            if password and not user:
                self.add_error(f"{account}_user", _("Enter the user of this password."))
            elif password and by_socket:
                self.add_error(secret, _("Leave the password empty for socket authentication."))
            elif user and by_socket:
                given[secret] = ""
            elif user and not password:
                if user != old_user or not self.vault.keeps(secret):
                    self.add_error(secret, _("Enter a password for the new account."))
                given[secret] = None


class ClusterForm(AccountsForm):
    """A cluster and the accounts that its instances share."""

    groups: ClassVar = {
        phrase("Cluster"): (
            "name",
            "write_addresses",
            "wanted_replicas",
            "redundancy_goal_seconds",
            "restore_test_host",
            "tls_ca",
        ),
        phrase("Approval and change tickets"): rules.CLUSTER_RULES,
        **AccountsForm.account_groups,
    }
    write_addresses = AddressesField(
        label=_("Write addresses"),
        required=False,
        help_text=_("Additional addresses that applications write to, as address:port, one per line."),
    )
    redundancy_goal_seconds = MinutesField(
        label=_("Redundancy goal (minutes)"),
        required=False,
        min_value=1,
        max_value=rules.LONGEST_GOAL_SECONDS // 60,
        help_text=_(
            "Target time to restore full redundancy. Hours that would miss it are highlighted under Availability. "
            "Leave empty for the default."
        ),
    )
    restore_test_host = forms.ChoiceField(
        label=_("Restore test host"),
        required=False,
        help_text=_(
            "Host that restores the backups. It needs the backup tool, a server program and disk space for the data."
        ),
    )

    class Meta:
        model = Cluster
        fields: ClassVar = [
            "name",
            "write_addresses",
            "wanted_replicas",
            "redundancy_goal_seconds",
            "restore_test_host",
            "tls_ca",
            *rules.CLUSTER_RULES,
            *AccountsForm.account_users,
        ]
        labels: ClassVar = {
            "wanted_replicas": _("Target number of healthy replicas"),
            "needs_approval": _("Require approval by other people"),
            "approval_count": _("Number of approvals"),
            "approvers_only": _("Only approvers and admins may approve"),
            "ticket_pattern": _("Pattern of change tickets"),
            "ticket_url": _("Address of a ticket"),
            "tls_ca": _("CA certificate of the servers (PEM)"),
            **dict.fromkeys(AccountsForm.account_users, _("User")),
        }
        help_texts: ClassVar = {
            "wanted_replicas": _(
                "Availability counts a gap while fewer instances besides the primary are healthy. Empty: all."
            ),
            "needs_approval": _(
                "A rebuild starts only after other people approve the request. The requester never counts."
            ),
            "approval_count": format_lazy(_("From 1 to {most}. Each person counts once."), most=MOST_APPROVALS),
            "approvers_only": _("Off: operators of this cluster may approve, too."),
            "ticket_pattern": _(
                "A rebuild needs a ticket that matches, for example CHG[0-9]{7}. Empty: no ticket needed."
            ),
            "ticket_url": _("https:// address with {ticket}. Empty: tickets are not linked."),
            "tls_ca": _(
                "dbops then connects only with TLS, to servers with a certificate of this CA for their address. Empty: no check."
            ),
            "local_user": _("Empty: the account above."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen, names = self.instance.restore_test_host, _hosts_with_an_instance()
        # The stored host remains a choice, so that saving another field keeps it.
        lost = (
            [(chosen, _("%(host)s (no instance on this host)") % {"host": chosen})]
            if chosen and chosen not in names
            else []
        )
        self.fields["approval_count"].required = False
        if found := first_to_end(self.instance.tls_ca):
            until = _("Valid until %(time)s UTC.") % {"time": f"{found.until:%Y-%m-%d %H:%M}"}
            self.fields["tls_ca"].help_text = f"{self.fields['tls_ca'].help_text} {until}"
        field = cast(forms.ChoiceField, self.fields["restore_test_host"])
        field.choices = [("", _("Host of the backup file")), *((name, name) for name in names), *lost]

    def clean_approval_count(self) -> int:
        return int(self.cleaned_data["approval_count"] or 1)

    def freeze_rules(self) -> None:
        """Show the rules without a way to change them, for those who may not."""
        for name in rules.CLUSTER_RULES:
            self.fields[name].disabled = True
            self.fields[name].help_text = _("Only admins of this cluster and superusers can change this.")

    def conflicts(self, given: dict[str, Any]) -> Iterator[InventoryConflict]:
        fleet, own = self._others()
        others = [PlacedObject(name) for name in fleet.clusters if name not in own]
        yield from name_conflicts([*others, PlacedObject(given.get("name", ""), None, self)], "cluster")


class InstanceForm(AccountsForm):
    """One server process. Its accounts replace those of its cluster."""

    groups: ClassVar = {
        phrase("Instance"): ("name", "cluster", "role", "host", "address", "port"),
        phrase("Files"): ("datadir", "defaults_file", "group_suffix", "os_user"),
        phrase("Replication after a rebuild"): ("replication_tls", "replication_tls_ca", "replication_delay_seconds"),
        phrase("Start and stop (systemd unit or commands)"): ("systemd_unit", "start_command", "stop_command"),
        **AccountsForm.account_groups,
    }

    class Meta:
        model = Instance
        fields: ClassVar = [
            *("name", "cluster", "role", "host", "address", "port", "datadir", "defaults_file", "os_user"),
            *("group_suffix", "replication_tls", "replication_tls_ca", "replication_delay_seconds"),
            *("systemd_unit", "start_command", "stop_command"),
            *AccountsForm.account_users,
        ]
        labels: ClassVar = {
            **dict.fromkeys(AccountsForm.account_users, _("User")),
            "datadir": _("Data directory"),
            "os_user": _("Data directory owner"),
            "group_suffix": _("Option group suffix"),
            "replication_tls": _("TLS"),
            "replication_tls_ca": _("CA certificate"),
            "replication_delay_seconds": _("Delay in seconds"),
        }
        help_texts: ClassVar = {
            "address": _("MySQL address. Empty: the SSH address of the host."),
            "datadir": _("A rebuild replaces its contents."),
            "group_suffix": _("As in --defaults-group-suffix, for servers like mysqld@NAME. Usually empty."),
            "replication_tls": _("Empty: as before the rebuild."),
            "replication_tls_ca": _("A file on the instance's host, outside the data directory. Empty: as before."),
            "replication_delay_seconds": _("Empty: as before."),
            "start_command": _("Starts with an absolute path."),
            **dict.fromkeys(AccountsForm.account_users, _("Empty: the account of the cluster.")),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["address"].required = False

    def clean_together(self, given: dict[str, Any]) -> None:
        super().clean_together(given)
        host = given.get("host")
        if host and "address" in given and not given["address"]:
            given["address"] = host.ssh_address
        if given.get("systemd_unit") and bool(given.get("start_command")) != bool(given.get("stop_command")):
            self.add_error("systemd_unit", sentence(rules.service_problem(given)))

    def conflicts(self, given: dict[str, Any]) -> Iterator[InventoryConflict]:
        fleet, own = self._others()
        values = {name: given[name] for name in ("role", "address", "port", "datadir") if given.get(name)}
        values |= {name: given[name].name for name in ("host", "cluster") if given.get(name)}
        instances = fleet.placed_instances(without=own)
        instances.append(PlacedInstance(given.get("name", ""), None, self, **values))
        yield from name_conflicts(instances, "instance")
        yield from instance_conflicts(instances, {host.name: host for host in fleet.placed_hosts()})
