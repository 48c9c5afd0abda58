"""django-allauth's hooks: dbops decides who gets in, and sends no mail. Its own templates are not used."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.stagekit import clear_login
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser, User
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _

from dbops.audit.log import append, current_origin
from dbops.engine.errors import Refused
from dbops.models.secret import cipher
from dbops.operations.factors import PRIMARY
from dbops.operations.login_limits import count_login
from dbops.security.permissions import needs_second_factor
from dbops.web.login.finish import METHOD, PENDING, PROVIDER, check_login, record_login, refused_login
from dbops.web.login.form_secret import keep_form_secret

FACTORS = {
    Authenticator.Type.TOTP: "authenticator app",
    Authenticator.Type.WEBAUTHN: "passkey",
    Authenticator.Type.RECOVERY_CODES: "recovery code",
}


class AccountAdapter(DefaultAccountAdapter):
    """Logins. People cannot sign up: a superuser or the provider's groups make accounts."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002 - allauth's signature
        return False

    def get_login_stages(self) -> list[str]:
        return ["allauth.mfa.stages.AuthenticateStage"]

    def get_login_redirect_url(self, request: HttpRequest) -> str:  # noqa: ARG002
        return reverse("fleet")

    def get_client_ip(self, request: HttpRequest) -> str:  # noqa: ARG002
        return current_origin().address

    def is_safe_url(self, url: str | None) -> bool:
        """Whether a page to return to is one of this dashboard: a path, without a host."""
        return url_has_allowed_host_and_scheme(url, allowed_hosts=None)

    def add_message(self, request: HttpRequest, level: int, *_: Any, message: str | None = None, **__: Any) -> None:
        """Show an error that allauth words itself. Its messages of success are templates: dbops writes its own."""
        if message and level >= messages.WARNING:
            messages.add_message(request, level, message)

    def send_notification_mail(self, *_: Any, **__: Any) -> None:
        """Send nothing: dbops knows no addresses. The audit log has each change."""

    def pre_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse | None:
        if "sociallogin" in (kwargs.get("signal_kwargs") or {}):
            request.session[METHOD] = PROVIDER
            request.session.pop(PENDING, None)
        return self._refusal(request, user)

    def login(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        # Again: the account may have changed while its second factor was awaited.
        if (answer := self._refusal(request, user)) is not None:
            raise ImmediateHttpResponse(answer)
        request.form_secret = request.META.get("CSRF_COOKIE", "")  # type: ignore[attr-defined]
        super().login(request, user)

    def post_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse:
        assert isinstance(user, User)  # noqa: S101 - the only model of accounts
        answer = super().post_login(request, user, **kwargs)
        keep_form_secret(request, answer, user, request.form_secret)  # type: ignore[attr-defined]
        record_login(request, user, factor=getattr(request, "login_factor", ""))
        return answer

    def reauthenticate(self, user: AbstractBaseUser, password: str) -> bool:
        """Check the password of somebody who is logged in, under the limits of the login page."""
        attempt = count_login(user.get_username(), current_origin().address)
        if attempt.blocked_until is not None:
            raise ValidationError(_("Too many wrong passwords. Wait 15 minutes."), code="blocked")
        if not user.check_password(password):
            append(actor=user.get_username(), action="login.failed", subject="dbops", detail={"step": "confirmation"})
            return False
        attempt.succeeded()
        return True

    def _refusal(self, request: HttpRequest, user: AbstractBaseUser) -> HttpResponse | None:
        assert isinstance(user, User)  # noqa: S101
        try:
            check_login(request, user)
        except Refused as error:
            clear_login(request)
            return refused_login(request, error, actor=user.get_username())
        return None


class FactorAdapter(DefaultMFAAdapter):
    """Second factors: secrets are encrypted at rest, and apps show the account and this dashboard."""

    def encrypt(self, text: str) -> str:
        return cipher().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return cipher().decrypt(encrypted_text.encode()).decode()

    def get_totp_issuer(self) -> str:
        return f"dbops {self._get_site_name()}"

    def _get_user_identifier(self, user: AbstractBaseUser) -> str:
        return user.get_username()

    def generate_authenticator_name(self, user: AbstractBaseUser, type: Authenticator.Type) -> str:  # noqa: A002
        count = Authenticator.objects.filter(user_id=user.pk, type=type).count()
        return f"Passkey {count + 1}"  # stored, and in the audit log: the same for each reader

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """Whether it is not the last factor of somebody who needs one."""
        others = Authenticator.objects.filter(user=authenticator.user, type__in=PRIMARY).exclude(pk=authenticator.pk)
        return others.exists() or not needs_second_factor(authenticator.user)
