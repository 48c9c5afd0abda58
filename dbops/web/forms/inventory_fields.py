"""Fields of the inventory's forms."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _


class SecretTextarea(forms.Textarea):
    """A text area that never shows submitted or stored text."""

    def format_value(self, value: Any) -> str:
        return ""


class AddressesField(forms.CharField):
    """A list of addresses, one on each line."""

    widget = forms.Textarea

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in str(value or "").splitlines() if line.strip()]


def secret_field() -> forms.CharField:
    return forms.CharField(
        label=_("Password"),
        required=False,
        strip=False,
        max_length=200,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


def socket_field() -> forms.BooleanField:
    return forms.BooleanField(
        label=_("Log in without a password"),
        required=False,
        help_text=_("By socket authentication: unix_socket on MariaDB, auth_socket on MySQL."),
    )


class MinutesField(forms.IntegerField):
    """A field in minutes for a column in seconds."""

    def prepare_value(self, value: Any) -> Any:
        return round(value / 60) if isinstance(value, int) else value

    def clean(self, value: Any) -> Any:
        minutes = super().clean(value)
        return None if minutes is None else minutes * 60
