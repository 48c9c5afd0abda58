"""Forms for second factors: those of django-allauth, under dbops's limits."""

from typing import Any

from allauth.account.forms import ReauthenticateForm
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.base.forms import ReauthenticateForm as ReauthenticateCodeForm
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.webauthn.forms import AddWebAuthnForm, AuthenticateWebAuthnForm, ReauthenticateWebAuthnForm
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from dbops.operations.login_limits import Attempt, count_code, count_second_factor

LONGEST_CODE = 32
LONGEST_NAME = 100
#: A credential is a few hundred bytes of JSON.
LONGEST_CREDENTIAL = 20_000


def _attempt(name: str) -> Attempt:
    """Count an attempt, and refuse one beyond the limit."""
    attempt = count_second_factor(name)
    if attempt.blocked_until is not None:
        raise ValidationError(_("Too many wrong codes. Wait an hour, or ask a superuser."), code="blocked")
    return attempt


class _Code:
    """A code of the authenticator app, or a recovery code. Each counts once, in whatever web process."""

    user: Any
    fields: dict[str, Any]
    cleaned_data: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["code"].label = _("Code")
        self.fields["code"].max_length = LONGEST_CODE
        self.fields["code"].widget.attrs |= {
            "class": "form-control",
            "autocomplete": "one-time-code",
            "placeholder": "",
        }
        self.fields["code"].widget.attrs |= {"inputmode": "numeric", "maxlength": LONGEST_CODE, "autofocus": True}

    def clean_code(self) -> str:
        name, code = self.user.get_username(), self.cleaned_data["code"]
        attempt = _attempt(name)
        if len(code) > LONGEST_CODE or count_code(name, code).blocked_until is not None:
            raise get_adapter().validation_error("incorrect_code")
        found: str = super().clean_code()  # type: ignore[misc]
        attempt.succeeded()
        return found


class CodeForm(_Code, AuthenticateForm):
    """The second step of a login."""


class ConfirmPasswordForm(ReauthenticateForm):
    """Somebody who is logged in proves it again, with the password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        self.fields["password"].widget.attrs |= {"class": "form-control", "placeholder": "", "autofocus": True}
        self.fields["password"].help_text = ""


class ConfirmCodeForm(_Code, ReauthenticateCodeForm):
    """Somebody who is logged in proves it again."""


class AddAppForm(_Code, ActivateTOTPForm):
    """The first code of a new authenticator app."""


class _Credential:
    """What the browser's authenticator signed. Nothing in it can be guessed, so the limit only slows programs."""

    user: Any
    data: Any
    cleaned_data: dict[str, Any]

    def clean_credential(self) -> Authenticator:
        attempt = _attempt(self.user.get_username()) if self.user is not None else None
        if len(str(self.data.get("credential", ""))) > LONGEST_CREDENTIAL:
            raise get_adapter().validation_error("incorrect_code")
        found: Authenticator = super().clean_credential()  # type: ignore[misc]
        if attempt is not None:
            attempt.succeeded()
        return found


class PasskeyForm(_Credential, AuthenticateWebAuthnForm):
    """The second step of a login, with a passkey."""


class ConfirmPasskeyForm(_Credential, ReauthenticateWebAuthnForm):
    """Somebody who is logged in proves it again, with a passkey."""


class AddPasskeyForm(AddWebAuthnForm):
    """A new passkey and its name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        name = self.fields["name"]
        name.max_length, name.help_text = LONGEST_NAME, "A name that you recognize, such as the device's."
        name.widget.attrs |= {"class": "form-control", "maxlength": LONGEST_NAME}
        passwordless = self.fields["passwordless"]
        passwordless.label = _("Log in with this passkey alone")
        passwordless.help_text = _("The passkey then asks for a PIN, a fingerprint or a face instead of the password.")
        passwordless.widget.attrs |= {"class": "form-check-input"}

    def clean_name(self) -> str:
        name: str = super().clean_name()
        if len(name) > LONGEST_NAME:
            raise ValidationError(_("At most %(number)s characters.") % {"number": LONGEST_NAME}, code="max_length")
        return name
