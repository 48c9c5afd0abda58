"""The form that adds an inventory source."""

from django import forms
from django.utils.translation import gettext_lazy as _

from dbops.engine.inventory.readers import SourceKind
from dbops.web.forms.add_form import AddForm


class SourceForm(AddForm):
    """A system that lists servers. The secret is never shown again."""

    secrets = ("secret",)

    name = forms.CharField(label=_("Name"), max_length=63)
    kind = forms.ChoiceField(label=_("Kind"), choices=[(kind.value, _(kind.label)) for kind in SourceKind])
    address = forms.CharField(
        label=_("Address"),
        max_length=500,
        help_text=_("https://HOST:PORT/PATH, http:// without a secret, or file:NAME of a file in DBOPS_INVENTORY_DIR."),
    )
    user = forms.CharField(
        label=_("User"),
        required=False,
        max_length=80,
        help_text=_("Empty: the secret is a bearer token, or there is none."),
    )
    secret = forms.CharField(
        label=_("Password or token"),
        required=False,
        max_length=4000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("Stored encrypted. Empty: none."),
    )
    ca = forms.CharField(
        label=_("CA certificate (PEM)"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=_("Authority of the source's certificate. Empty: authorities that the system trusts."),
    )
    every_minutes = forms.IntegerField(label=_("Minutes between readings"), min_value=1, max_value=10080, initial=60)
