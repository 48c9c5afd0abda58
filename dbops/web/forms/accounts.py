"""Forms for accounts. A password is never shown: after an error it must be entered again."""

from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from dbops.engine.access.roles import ON_CLUSTERS, AccessRole
from dbops.models import Cluster
from dbops.operations.account_admin import access_of
from dbops.security.permissions import GROUPS, group_of

MEANINGS = {
    "viewer": _("viewer: read-only"),
    "approver": _("approver: read-only, can approve rebuilds"),
    "operator": _("operator: can make changes"),
}
ROLE_MEANINGS = {
    AccessRole.OPERATOR: _("operator: can make changes"),
    AccessRole.APPROVER: _("approver: can approve rebuilds"),
    AccessRole.ADMIN: _("admin: operator and approver who also sets the rules of approvals and tickets"),
}


def password_field(label: Any) -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": "new-password", "class": "form-control"})
    return forms.CharField(label=label, strip=False, max_length=200, widget=widget)


class GroupFields(forms.Form):
    """The permissions of an account."""

    group = forms.ChoiceField(
        label=_("Group"),
        choices=[(name, MEANINGS[name]) for name in GROUPS],
        widget=forms.Select({"class": "form-select"}),
    )
    superuser = forms.BooleanField(
        label=_("Superuser: operator who also manages accounts"),
        required=False,
        widget=forms.CheckboxInput({"class": "form-check-input"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})


class PasswordFields(forms.Form):
    """A password, entered twice."""

    password = password_field(_("Password"))
    password_again = password_field(_("Password again"))

    #: The owner of the password: it must differ from the username.
    user: User | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        self.fields["password"].help_text = _("At least 12 characters. Common passwords are rejected.")

    def clean_password(self) -> str:
        password = self.cleaned_data["password"]
        validate_password(password, self.user)
        return str(password)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if "password" in given and given["password"] != given.get("password_again"):
            self.add_error("password_again", ValidationError(_("The passwords do not match."), code="differs"))
        return given


class UserForm(GroupFields, PasswordFields):
    """A new account."""

    name = forms.CharField(
        label=_("Username"),
        max_length=150,
        help_text=_("Letters, digits and @ . + - _ only. The audit log shows this name."),
        widget=forms.TextInput({"class": "form-control", "autocomplete": "off", "autocapitalize": "none"}),
    )
    field_order = ("name", "group", "password", "password_again", "superuser")

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        User._meta.get_field("username").clean(name, None)
        if User.objects.filter(username=name).exists():
            raise ValidationError(_("This username already exists."), code="exists")
        return name


class ChangeForm(GroupFields):
    """Change the group of an account. ``seen`` is the displayed state."""

    seen = forms.CharField(widget=forms.HiddenInput)

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        initial = {"group": group_of(user), "superuser": user.is_superuser, "seen": access_of(user)}
        super().__init__(*args, initial=initial, **kwargs)


class ClusterRoleForm(forms.Form):
    """A role on one cluster."""

    cluster = forms.ModelChoiceField(
        Cluster.objects.only("name"),
        to_field_name="name",
        empty_label=_("Select a cluster"),
        widget=forms.Select({"class": "form-select"}),
    )
    role = forms.ChoiceField(
        choices=[(role.value, ROLE_MEANINGS[role]) for role in ON_CLUSTERS],
        widget=forms.Select({"class": "form-select"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", "auto_id": "id_role_%s", **kwargs})


class OwnPasswordForm(PasswordFields):
    """Change one's own password."""

    current = forms.CharField(
        label=_("Current password"),
        strip=False,
        max_length=200,
        widget=forms.PasswordInput({"class": "form-control", "autocomplete": "current-password"}),
    )
    #: Off: passwords are also changed as a routine, and programs must not stop then.
    revoke_tokens = forms.BooleanField(
        label=_("Also revoke my API tokens"),
        required=False,
        widget=forms.CheckboxInput({"class": "form-check-input"}),
    )
    field_order = ("current", "password", "password_again", "revoke_tokens")

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        self.fields["password"].label, self.fields["password_again"].label = _("New password"), _("New password again")

    def clean(self) -> dict[str, Any]:
        given = super().clean()
        if given.get("current") and given["current"] == given.get("password"):
            self.add_error("password", ValidationError(_("This is the current password."), code="same"))
        return given


class PasswordForm(PasswordFields):
    """Set the password of an account."""

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
