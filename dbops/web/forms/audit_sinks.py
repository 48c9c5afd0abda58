"""The form that adds an audit sink."""

from django import forms
from django.utils.translation import gettext_lazy as _

from dbops.web.forms.add_form import AddForm


class SinkForm(AddForm):
    """A receiver of the audit log. The token is never shown again."""

    secrets = ("token",)

    name = forms.CharField(label=_("Name"), max_length=60, help_text=_("For example the name of the SIEM."))
    address = forms.CharField(
        label=_("Address"),
        max_length=500,
        help_text=_("syslog+tls://HOST:6514, syslog+tcp://HOST:514 or https://HOST/PATH. Put no secret in it."),
    )
    token = forms.CharField(
        label=_("Bearer token"),
        required=False,
        max_length=4000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("For https:// only. Stored encrypted. Empty: none."),
    )
    ca = forms.CharField(
        label=_("CA certificate (PEM)"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=_("Authority of the receiver's certificate. Empty: authorities that the system trusts."),
    )
    after = forms.IntegerField(
        label=_("Send entries after number"),
        required=False,
        min_value=0,
        help_text=_("0 sends all entries in the database. Empty: new entries only."),
    )
