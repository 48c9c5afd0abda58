"""Second factors: the second step of a login, and the pages on which people add and remove their own."""

from typing import Any

from allauth.account.views import ReauthenticateView
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base.views import AuthenticateView, IndexView
from allauth.mfa.base.views import ReauthenticateView as CodeReauthenticateView
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView, ViewRecoveryCodesView
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.mfa.webauthn.views import (
    AddWebAuthnView,
    LoginWebAuthnView,
    ReauthenticateWebAuthnView,
    RemoveWebAuthnView,
)
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse_lazy
from django.utils.translation import gettext as _

from dbops.audit.log import append
from dbops.engine.phrases import phrase
from dbops.operations.factors import has_factor
from dbops.security.permissions import needs_second_factor
from dbops.web.decorators import user_of
from dbops.web.forms import factors as forms
from dbops.web.login.adapters import FACTORS
from dbops.web.login.finish import METHOD, PASSKEY, PENDING, WITH_FACTOR
from dbops.web.templatetags.phrases import translated

OVERVIEW = reverse_lazy("mfa_index")
DONE = {
    "factor.added": phrase("The {factor} was added."),
    "factor.removed": phrase("The {factor} was removed."),
    "factor.codes_renewed": phrase("New {factor} replace the old ones."),
}
#: The factors, as in the audit log.
WORDS = (phrase("authenticator app"), phrase("passkey"), phrase("recovery codes"))


def _failed(user: User | None, step: str) -> None:
    """Record a wrong code or credential."""
    actor = user.get_username() if user else "(unknown)"
    append(actor=actor, action="login.failed", subject="dbops", detail={"step": step})


class CodeView(AuthenticateView):
    """The second step of a login: a code, or a passkey."""

    template_name = "login/code.html"
    form_class = forms.CodeForm
    webauthn_form_class = forms.PasskeyForm

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        user = self.stage.login.user
        has_passkey = Authenticator.objects.filter(user=user, type=Authenticator.Type.WEBAUTHN).exists()
        return super().get_context_data(**kwargs) | {"has_passkey": has_passkey}

    def form_valid(self, form: Any) -> HttpResponse:
        used: Authenticator = getattr(form, "authenticator", None) or form.cleaned_data["credential"]
        self.request.login_factor = FACTORS[Authenticator.Type(used.type)]
        answer: HttpResponse = super().form_valid(form)
        return answer

    def form_invalid(self, form: Any) -> HttpResponse:
        _failed(self.stage.login.user, "second factor")
        answer: HttpResponse = super().form_invalid(form)
        answer.status_code = 422
        return answer


class PasskeyLoginView(LoginWebAuthnView):
    """Log in with a passkey alone. Its device has checked a PIN, a fingerprint or a face."""

    def form_valid(self, form: Any) -> HttpResponse:
        self.request.session[METHOD] = PASSKEY
        self.request.session.pop(PENDING, None)
        answer: HttpResponse = super().form_valid(form)
        return answer

    def form_invalid(self, form: Any) -> HttpResponse:
        _failed(None, "passkey")
        messages.error(
            self.request, _("dbops does not know this passkey, or it did not check a PIN, a fingerprint or a face.")
        )
        return redirect("login")


class ConfirmPasswordView(ReauthenticateView):
    """Ask for the password again before a change of factors."""

    template_name = "account/confirm.html"
    form_class = forms.ConfirmPasswordForm

    def form_invalid(self, form: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=422)


class ConfirmCodeView(CodeReauthenticateView):
    """Ask for a code before a change of factors."""

    template_name = "account/confirm.html"
    form_class = forms.ConfirmCodeForm

    def form_invalid(self, form: Any) -> HttpResponse:
        _failed(user_of(self.request), "confirmation")
        return self.render_to_response(self.get_context_data(form=form), status=422)


class ConfirmPasskeyView(ReauthenticateWebAuthnView):
    """Ask for a passkey before a change of factors."""

    template_name = "account/confirm.html"
    form_class = forms.ConfirmPasskeyForm

    def form_invalid(self, form: Any) -> HttpResponse:
        _failed(user_of(self.request), "confirmation")
        messages.error(self.request, _("This passkey does not belong to your account."))
        return redirect("mfa_index")


class FactorsView(IndexView):
    """A person's own factors."""

    template_name = "account/factors.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        user = user_of(self.request)
        found = context["authenticators"]
        codes = found.get(Authenticator.Type.RECOVERY_CODES)
        context |= {
            "app": found.get(Authenticator.Type.TOTP),
            "passkeys": found.get(Authenticator.Type.WEBAUTHN, []),
            "codes_left": len(codes.get_unused_codes()) if codes else None,
            "is_required": needs_second_factor(user) and not self.request.session.get(WITH_FACTOR),
            "has_password": user.has_usable_password(),
            "provider": settings.OIDC_NAME,
        }
        return context


class AddAppView(ActivateTOTPView):
    """Add an authenticator app, with a QR code that the server draws."""

    template_name = "account/app_add.html"
    form_class = forms.AddAppForm

    @transaction.atomic
    def form_valid(self, form: Any) -> HttpResponse:
        user = _locked(self.request)
        if Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists():
            return redirect("mfa_index")
        answer: HttpResponse = super().form_valid(form)
        _changed(self.request, "factor.added", "authenticator app")
        self.request.session[WITH_FACTOR] = True
        return answer

    def form_invalid(self, form: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=422)


class RemoveAppView(DeactivateTOTPView):
    """Remove the authenticator app."""

    template_name = "account/app_remove.html"
    success_url = OVERVIEW

    @transaction.atomic
    def form_valid(self, form: Any) -> HttpResponse:
        _locked(self.request)
        answer: HttpResponse = super().form_valid(form)
        _changed(self.request, "factor.removed", "authenticator app")
        return answer


class AddPasskeyView(AddWebAuthnView):
    """Add a passkey."""

    template_name = "account/passkey_add.html"
    form_class = forms.AddPasskeyForm

    @transaction.atomic
    def form_valid(self, form: Any) -> HttpResponse:
        _locked(self.request)
        answer: HttpResponse = super().form_valid(form)
        _changed(self.request, "factor.added", "passkey", name=form.cleaned_data["name"])
        self.request.session[WITH_FACTOR] = True
        return answer

    def form_invalid(self, form: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=422)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        # allauth's view makes a new form, also after an error
        return context | ({"form": kwargs["form"]} if "form" in kwargs else {})


class RemovePasskeyView(RemoveWebAuthnView):
    """Remove a passkey."""

    template_name = "account/passkey_remove.html"
    success_url = OVERVIEW

    @transaction.atomic
    def form_valid(self, form: Any) -> HttpResponse:
        _locked(self.request)
        passkey = self.get_object()
        if not get_adapter().can_delete_authenticator(passkey):
            messages.error(self.request, _("Your group needs a second factor. Add another one first."))
            return redirect("mfa_index")
        name = passkey.wrap().name
        answer: HttpResponse = super().form_valid(form)
        _changed(self.request, "factor.removed", "passkey", name=name)
        return answer


class CodesView(ViewRecoveryCodesView):
    """The unused recovery codes."""

    template_name = "account/codes.html"


class RenewCodesView(GenerateRecoveryCodesView):
    """Replace all recovery codes."""

    template_name = "account/codes_renew.html"

    @transaction.atomic
    def form_valid(self, form: Any) -> HttpResponse:
        answer: HttpResponse = super().form_valid(form)
        _changed(self.request, "factor.codes_renewed", "recovery codes")
        return answer


def _locked(request: HttpRequest) -> User:
    """Lock the account, so that changes in two tabs come one after the other."""
    return User.objects.select_for_update().get(pk=user_of(request).pk)


def _changed(request: HttpRequest, action: str, factor: str, **detail: str) -> None:
    user = user_of(request)
    if not has_factor(user):
        request.session.pop(WITH_FACTOR, None)
    append(actor=user.get_username(), action=action, subject=user.get_username(), detail={"factor": factor, **detail})
    messages.success(request, translated(DONE[action]).format(factor=translated(factor)))
