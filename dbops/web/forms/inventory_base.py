"""What the forms of hosts, clusters, instances and schedules share."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from dbops.engine.phrases import phrase
from dbops.fleetfile import rules, stored
from dbops.fleetfile.conflicts import InventoryConflict
from dbops.models.secret import is_set
from dbops.web.forms.vault_fields import VaultFields
from dbops.web.templatetags.phrases import sentence, translated

KEEP = _("Stored. Leave empty to keep the current value.")
NOT_SET = _("Not set")
IN_VAULT = _("In Vault")
#: Labels that Django makes of the names of columns.
LABELS = (
    phrase("Name"),
    phrase("Cluster"),
    phrase("Role"),
    phrase("Host"),
    phrase("Address"),
    phrase("Port"),
    phrase("Defaults file"),
    phrase("Systemd unit"),
    phrase("Start command"),
    phrase("Stop command"),
    phrase("Instance"),
    phrase("Time zone"),
    phrase("Directory"),
)


class InventoryForm(forms.ModelForm):
    """Base of the three forms: the fleet file's rules, and a check for concurrent changes.

    ``seen`` is a digest of what the page showed; a row that has changed since then is not overwritten.
    """

    groups: ClassVar[dict[str, tuple[str, ...]]] = {}
    secrets: ClassVar[tuple[str, ...]] = ()
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        self.is_new = self.instance.pk is None
        self.before = None if self.is_new else type(self.instance).objects.get(pk=self.instance.pk)
        self.vault = VaultFields(self, self.secrets, self.before)
        self.shown = "" if self.is_new else self._digest()
        self.initial["seen"] = self.shown
        for name in self.secrets:
            kept = IN_VAULT if self.vault.shown.get(name) else KEEP
            self.fields[name].help_text = kept if self.before and is_set(self.before, name) else NOT_SET
        for field in self.fields.values():
            if isinstance(field.label, str):  # of the model: a word of LABELS
                field.label = translated(field.label)
            field.widget.attrs.setdefault("class", css_class(field.widget))
            if isinstance(field.widget, forms.Textarea):
                field.widget.attrs.update(rows=4, spellcheck="false")

    def sections(self) -> Iterator[tuple[str, list[forms.BoundField]]]:
        """Return the visible fields under their headings."""
        for title, names in self.groups.items():
            yield translated(title), [self[name] for name in self.vault.between(names)]

    def clean(self) -> dict[str, Any]:
        super().clean()
        given = self.cleaned_data
        if given.pop("seen", "") != self.shown:
            raise ValidationError(_("Another user changed this object. Reload the page and try again."), code="stale")
        for name in [name for name in given if name in self.fields]:
            if problem := rules.own_problem(name, given[name]):
                self.add_error(name, sentence(problem))
        self.vault.take(given)
        self.clean_together(given)
        for conflict in self.conflicts(given):
            if conflict.subject.origin is self:
                self.add_error(conflict.field, sentence(conflict.text))
        return given

    def clean_together(self, given: dict[str, Any]) -> None:
        """Check fields against each other."""

    def conflicts(self, given: dict[str, Any]) -> Iterator[InventoryConflict]:
        """Find values that another object of the fleet already uses."""
        raise NotImplementedError

    def values(self) -> dict[str, Any]:
        """Return the model fields to write; secrets only if they were entered or must be removed."""
        return {
            name: value for name, value in self.cleaned_data.items() if name not in self.secrets or value is not None
        }

    def _digest(self) -> str:
        shown = {name: str(getattr(self.instance, name)) for name in self._meta.fields or ()} | self.vault.shown
        return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:32]

    def _others(self) -> tuple[stored.StoredInventory, tuple[str, ...]]:
        """Return the fleet, and the name of the edited object in it."""
        before: Any = self.before
        return stored.load(), (before.name,) if before else ()


def css_class(widget: forms.Widget) -> str:
    """Return the class that a control has on the pages."""
    if isinstance(widget, forms.CheckboxInput):
        return "form-check-input"
    return "form-select" if isinstance(widget, forms.Select) else "form-control"
