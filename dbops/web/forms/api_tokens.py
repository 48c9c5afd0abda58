"""The form of a personal token of the API."""

from typing import Any

from django import forms
from django.conf import settings

from dbops.models import AccessToken, Cluster
from dbops.models.fleet import name_validator

USUAL_DAYS = 90


class ApiTokenForm(forms.Form):
    """What a token opens, and for how long."""

    name = forms.CharField(
        label="Name",
        max_length=63,
        validators=[name_validator],
        help_text="For example the name of the program that uses it. The audit log shows this name.",
    )
    scope = forms.ChoiceField(
        label="Scope",
        choices=AccessToken.SCOPES,
        help_text="operate: can also change what your account can change.",
    )
    days = forms.IntegerField(label="Expires after days", min_value=1)
    clusters = forms.ModelMultipleChoiceField(
        Cluster.objects.all(),
        label="Clusters",
        to_field_name="name",
        required=False,
        help_text="None selected: all clusters.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        most = settings.API_TOKEN_MAX_DAYS
        days = forms.IntegerField(
            label="Expires after days",
            min_value=1,
            max_value=most,
            initial=min(USUAL_DAYS, most),
            help_text=f"1 to {most}",
        )
        self.fields["days"] = days
        for name, field in self.fields.items():
            field.widget.attrs["class"] = "form-select" if name in ("scope", "clusters") else "form-control"
