"""The form of a cluster's capacity thresholds."""

from collections.abc import Mapping
from typing import Any, Self

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from dbops.engine.capacity.limits import LimitKind
from dbops.engine.errors import Refused
from dbops.web.refusal_texts import cause_of

GIB = 1024**3
#: Largest number that a person means: a larger one is a typing error.
MOST, MOST_GIB = 10**9, 10**7


class ThresholdForm(forms.Form):
    """Limits of one cluster; an empty field is no threshold."""

    schemas = forms.IntegerField(
        label=_("Schemas"), required=False, min_value=1, max_value=MOST, help_text=_("Empty: no threshold.")
    )
    tables = forms.IntegerField(
        label=_("Tables"), required=False, min_value=1, max_value=MOST, help_text=_("Empty: no threshold.")
    )
    disk = forms.IntegerField(
        label=_("Disk used (GiB)"),
        required=False,
        min_value=1,
        max_value=MOST_GIB,
        help_text=_("Of each instance. Empty: the size of its file system."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        for field in self.fields.values():
            field.widget.attrs["class"] = "form-control"

    @classmethod
    def of(cls, thresholds: Mapping[LimitKind, int]) -> Self:
        """Return the form that shows stored thresholds."""
        initial = {kind.value: value for kind, value in thresholds.items()}
        if LimitKind.DISK in thresholds:
            initial["disk"] = round(thresholds[LimitKind.DISK] / GIB)
        return cls(initial=initial)

    def values(self) -> dict[LimitKind, int | None]:
        """Return the thresholds in the units of their limits."""
        disk = self.cleaned_data["disk"]
        return {
            LimitKind.SCHEMAS: self.cleaned_data["schemas"],
            LimitKind.TABLES: self.cleaned_data["tables"],
            LimitKind.DISK: None if disk is None else disk * GIB,
        }

    def add_refusal(self, error: Refused) -> None:
        """Show a refusal above the form, with its code."""
        self.add_error(None, ValidationError(cause_of(error), code=error.code))
