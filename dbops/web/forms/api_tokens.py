"""The form of an API token."""

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from dbops.models import AccessToken, Cluster
from dbops.models.fleet import name_validator

USUAL_DAYS = 90


class ApiTokenForm(forms.Form):
    """What a token opens, and for how long."""

    name = forms.CharField(
        label=_("Name"),
        max_length=63,
        validators=[name_validator],
        help_text=_("For example the name of the program that uses it. The audit log shows this name."),
    )
    scope = forms.ChoiceField(
        label=_("Scope"),
        choices=AccessToken.SCOPES,
        help_text=_("operate: can also change what your account can change."),
    )
    days = forms.IntegerField(label=_("Expires after days"), min_value=1)
    clusters = forms.ModelMultipleChoiceField(
        Cluster.objects.all(),
        label=_("Clusters"),
        to_field_name="name",
        required=False,
        help_text=_("None selected: all clusters."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        most = settings.API_TOKEN_MAX_DAYS
        days = forms.IntegerField(
            label=_("Expires after days"),
            min_value=1,
            max_value=most,
            initial=min(USUAL_DAYS, most),
            help_text=_("1 to %(most)s") % {"most": most},
        )
        self.fields["days"] = days
        for name, field in self.fields.items():
            field.widget.attrs["class"] = "form-select" if name in ("scope", "clusters") else "form-control"
