"""The form of a fleet file."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from dbops.web.forms.inventory_fields import SecretTextarea


class ImportForm(forms.Form):
    """The text of a fleet file, pasted or uploaded. It may hold passwords and is not shown again."""

    text = forms.CharField(
        label=_("Text"),
        required=False,
        strip=False,
        max_length=2_000_000,
        widget=SecretTextarea(attrs={"rows": 16, "class": "form-control", "spellcheck": "false"}),
    )
    file = forms.FileField(
        label=_("File"), required=False, max_length=255, widget=forms.FileInput(attrs={"class": "form-control"})
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if given.get("file"):
            if given["file"].size > 2_000_000:
                raise ValidationError(_("The file is larger than 2 MB."))
            try:
                given["text"] = given["file"].read().decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValidationError(
                    _("The file is not valid UTF-8 (byte %(start)s).") % {"start": error.start}
                ) from error
        if not self.errors and not given.get("text", "").strip():
            raise ValidationError(_("Paste the text of a fleet file or select a file."))
        return given
