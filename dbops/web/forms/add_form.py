"""What forms share that add something: its secrets can be entered, or be paths in Vault."""

from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from dbops.web.forms.inventory_base import css_class
from dbops.web.forms.vault_fields import VaultFields


class AddForm(forms.Form):
    """A form whose ``secrets`` have a field for their path in Vault, if the settings have a Vault."""

    secrets: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        self.vault = VaultFields(self, self.secrets, None)
        self.order_fields(self.vault.between(self.base_fields))
        self._needed = [name for name in self.vault.names if self.fields[name].required]
        for name in self._needed:
            self.fields[name].required = False  # its path is enough
        for field in self.fields.values():
            field.widget.attrs.setdefault("class", css_class(field.widget))

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        self.vault.take(given)
        for name in self._needed:
            if not given.get(name) and not {name, self.vault.names[name]} & set(self.errors):
                self.add_error(name, ValidationError(self.fields[name].error_messages["required"], code="required"))
        return given
