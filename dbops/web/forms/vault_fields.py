"""Beside each secret of a form: the field for its path in Vault, if the settings have a Vault."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.utils.translation import gettext as _

from dbops.engine.phrases import said
from dbops.models.secret import is_set, vault_path
from dbops.security.vault_paths import VaultPath
from dbops.web.templatetags.phrases import sentence


class VaultPathField(forms.CharField):
    """``path#field`` below the prefix of the settings; ``None`` if it is empty."""

    def __init__(self) -> None:
        super().__init__(
            label=_("Or in Vault"),
            required=False,
            help_text=_("path#field below %(place)s/, such as clusters/shop#admin.")
            % {"place": f"{settings.VAULT.mount}/{settings.VAULT.prefix}"},
        )

    def clean(self, value: Any) -> VaultPath | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            return VaultPath.parse(text)
        except ValueError as error:
            raise ValidationError(sentence(said(error)), code="path") from error


class VaultFields:
    """The paths of a form's secrets in Vault. An entered secret replaces a path, and a path the secret in the database."""

    def __init__(self, form: forms.BaseForm, secrets: Iterable[str], before: Model | None) -> None:
        self._form, self._before = form, before
        self.names = {secret: f"{secret}_vault" for secret in secrets} if settings.VAULT else {}
        self.shown = {secret: vault_path(before, secret) for secret in secrets} if before else {}
        self._left: set[str] = set()
        for secret, name in self.names.items():
            form.fields[name] = VaultPathField()
            form.initial[name] = str(self.shown.get(secret) or "")

    def between(self, names: Iterable[str]) -> list[str]:
        """Return names of fields, each secret followed by its path."""
        return [one for name in names for one in (name, self.names.get(name, "")) if one]

    def freeze(self) -> None:
        """Show the paths without a way to change them."""
        for name in self.names.values():
            self._form.fields[name].disabled = True
            self._form.fields[name].help_text = _("Only operators of the whole fleet can change this.")

    def take(self, given: dict[str, Any]) -> None:
        """Put the paths in the place of their secrets."""
        for secret, name in self.names.items():
            path, kept = given.pop(name, None), self.shown.get(secret)
            if not given.get(secret):
                given[secret] = path or given.get(secret)
                self._left |= {secret} if kept and not path else set()
            elif path and path != kept:
                self._form.add_error(name, _("Enter either a secret or its path in Vault, not both."))

    def keeps(self, secret: str) -> bool:
        """Whether an empty field keeps a stored secret."""
        return self._before is not None and secret not in self._left and is_set(self._before, secret)
