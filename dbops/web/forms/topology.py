"""Forms for discoveries and for adding discovered servers to the inventory."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from dbops.engine.states import Role
from dbops.engine.topology.proposals import ProposedMember
from dbops.fleetfile.proposal import ProposedAccount, ProposedInstance
from dbops.models import Cluster, Host
from dbops.models.fleet import ACCOUNTS as KNOWN_ACCOUNTS
from dbops.queries.topology import ProposalRow
from dbops.web.forms.add_form import AddForm

#: Of proposed servers, which are MySQL or MariaDB.
ACCOUNTS = tuple(account for account in KNOWN_ACCOUNTS if account != "load")
ROLES = [("", _("Select a role")), *((role.value, _(role.value)) for role in Role)]


def _styled(form: forms.BaseForm) -> None:
    for field in form.fields.values():
        kind = "form-check-input" if isinstance(field.widget, forms.CheckboxInput) else "form-control"
        field.widget.attrs.setdefault("class", "form-select" if isinstance(field.widget, forms.Select) else kind)


def _password(label: Any, help_text: Any = "") -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
    return forms.CharField(label=label, required=False, strip=False, max_length=200, widget=widget, help_text=help_text)


class DiscoveryForm(AddForm):
    """The address of a server and the account to log in with."""

    secrets = ("password",)

    address = forms.CharField(label=_("Server address"), max_length=253)
    port = forms.IntegerField(label=_("Port"), min_value=1, max_value=65535, initial=3306)
    cluster = forms.ModelChoiceField(
        label=_("Stored account of cluster"),
        queryset=Cluster.objects.exclude(admin_user=""),
        to_field_name="name",
        required=False,
        empty_label=_("None: use the account below"),
    )
    user = forms.CharField(label=_("User"), required=False, max_length=80)
    password = _password(_("Password"), _("Stored encrypted and deleted when the discovery ends."))

    def clean(self) -> dict[str, Any]:
        given = super().clean()
        if not self.errors and not given.get("cluster") and not given.get("user"):
            raise ValidationError(_("Select a cluster, or enter a user and a password."), code="no_account")
        return given


class MemberForm(forms.Form):
    """One proposed server. Unticked servers are not imported."""

    include = forms.BooleanField(label=_("Add to the inventory"), required=False)
    name = forms.CharField(label=_("Name"), max_length=63, required=False)
    role = forms.ChoiceField(label=_("Role"), choices=ROLES, required=False)
    datadir = forms.CharField(label=_("Data directory"), max_length=500, required=False)
    host = forms.CharField(label=_("Host"), max_length=63, required=False)
    ssh_address = forms.CharField(label=_("SSH address of the host"), max_length=253, required=False)

    def __init__(self, member: ProposedMember, data: QueryDict | None, prefix: str, hosts: Mapping[str, str]) -> None:
        self.member = member
        host, _ = member.node.addresses[0]
        initial = {
            "include": member.role is not None,
            "name": member.name,
            "role": member.role.value if member.role else "",
            "datadir": member.node.datadir.rstrip("/"),
            "host": hosts.get(host, f"host-{member.name}"[:63]),
            "ssh_address": host,
        }
        super().__init__(data, prefix=prefix, initial=initial, label_suffix="")
        _styled(self)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if given.get("include"):
            for name in ("name", "role", "datadir", "host", "ssh_address"):
                if not given.get(name) and name not in self.errors:
                    text = _("Select a role.") if name == "role" else _("This field is required.")
                    self.add_error(name, ValidationError(text, code="required"))
        return given


class ClusterProposalForm(forms.Form):
    """The shared settings of all new servers. A known cluster keeps its accounts and write addresses."""

    cluster = forms.CharField(label=_("Cluster"), max_length=63)
    write_addresses = forms.CharField(
        label=_("Write addresses"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("One address per line. Only for a new cluster."),
    )
    ssh_user = forms.CharField(label=_("SSH user"), initial="root", max_length=64)
    ssh_port = forms.IntegerField(label=_("SSH port"), initial=22, min_value=1, max_value=65535)
    ssh_key_file = forms.CharField(
        label=_("SSH key file"),
        required=False,
        max_length=500,
        help_text=_("Path on the dashboard’s machine. Only for new hosts."),
    )
    defaults_file = forms.CharField(label=_("Server option file"), initial="/etc/mysql/my.cnf", max_length=500)
    systemd_unit = forms.CharField(label=_("Systemd unit"), required=False, max_length=200, initial="mariadb")
    start = forms.CharField(label=_("Start command (instead of a unit)"), required=False, max_length=500)
    stop = forms.CharField(label=_("Stop command"), required=False, max_length=500)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        for account in ACCOUNTS:
            self.fields[f"{account}_user"] = forms.CharField(
                label=f"{account.capitalize()} user", required=False, max_length=80
            )
            self.fields[f"{account}_password"] = _password(f"{account.capitalize()} password")
        _styled(self)

    def accounts(self) -> dict[str, ProposedAccount]:
        given = self.cleaned_data
        return {word: ProposedAccount(given[f"{word}_user"], given[f"{word}_password"]) for word in ACCOUNTS}


class ProposalForm:
    """The form of one proposed cluster: shared settings, and a part for each server."""

    def __init__(self, proposal: ProposalRow, data: QueryDict | None, *, admin_user: str) -> None:
        common = {"cluster": proposal.stored_in or proposal.cluster.name, "admin_user": admin_user}
        mysql = any(member.node.flavor == "mysql" for member in proposal.cluster.members)
        common |= {"systemd_unit": "mysql"} if mysql else {}
        self.cluster = ClusterProposalForm(data, initial=common)
        hosts = dict(Host.objects.values_list("ssh_address", "name"))
        self.members = [MemberForm(member, data, f"m{number}", hosts) for number, member in enumerate(proposal.new)]

    def is_valid(self) -> bool:
        return all([self.cluster.is_valid(), *(form.is_valid() for form in self.members)])

    def instances(self) -> list[ProposedInstance]:
        """Return the servers that are ticked. ``{name}`` in a command is replaced by the server's name."""
        shared = self.cluster.cleaned_data
        found = []
        for form in self.members:
            given = form.cleaned_data
            if not given["include"]:
                continue
            host, port = form.member.node.addresses[0]
            found.append(
                ProposedInstance(
                    name=given["name"],
                    role=given["role"],
                    address=host,
                    port=port,
                    datadir=given["datadir"],
                    host=given["host"],
                    ssh_address=given["ssh_address"],
                    ssh_port=shared["ssh_port"],
                    ssh_user=shared["ssh_user"],
                    ssh_key_file=shared["ssh_key_file"],
                    defaults_file=shared["defaults_file"].replace("{name}", given["name"]),
                    systemd_unit="" if shared["start"] else shared["systemd_unit"].replace("{name}", given["name"]),
                    start=shared["start"].replace("{name}", given["name"]),
                    stop=shared["stop"].replace("{name}", given["name"]),
                )
            )
        return found
