"""URLs of logins and of a person's own account. Names with underscores are those that django-allauth looks up."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponseBase
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from dbops.web.decorators import own_page
from dbops.web.login.limits import limited_start
from dbops.web.views import api_tokens, factors, languages, login_sessions, provider_login
from dbops.web.views.login import LoginView, LogoutView
from dbops.web.views.own_password import own_password


def _own(view: type[Any]) -> Callable[..., HttpResponseBase]:
    """Return a page of one's own account, which no cache keeps and no error report shows."""
    shown: Callable[..., HttpResponseBase] = view.as_view()

    def page(request: HttpRequest, /, **kwargs: Any) -> HttpResponseBase:
        return shown(request, **kwargs)

    return sensitive_post_parameters()(never_cache(own_page(page)))


login = LoginView.as_view()

urlpatterns = [
    path("login/", login, name="login"),
    path("login/", login, name="account_login"),
    path("login/code/", factors.CodeView.as_view(), name="mfa_authenticate"),
    path(
        "login/passkey/",
        login_not_required(limited_start(factors.PasskeyLoginView.as_view())),
        name="mfa_login_webauthn",
    ),
    path(
        "login/<str:provider_id>/", login_not_required(limited_start(provider_login.begin)), name="openid_connect_login"
    ),
    path("login/<str:provider_id>/callback/", provider_login.callback, name="openid_connect_callback"),
    path("logout/", login_not_required(LogoutView.as_view()), name="logout"),
    path("password/", own_password, name="own-password"),
    path("account/confirm/", _own(factors.ConfirmPasswordView), name="account_reauthenticate"),
    path("account/confirm/code/", _own(factors.ConfirmCodeView), name="mfa_reauthenticate"),
    path("account/confirm/passkey/", _own(factors.ConfirmPasskeyView), name="mfa_reauthenticate_webauthn"),
    path("account/factors/", _own(factors.FactorsView), name="mfa_index"),
    path("account/factors/app/add/", _own(factors.AddAppView), name="mfa_activate_totp"),
    path("account/factors/app/remove/", _own(factors.RemoveAppView), name="mfa_deactivate_totp"),
    path("account/factors/codes/", _own(factors.CodesView), name="mfa_view_recovery_codes"),
    path("account/factors/codes/renew/", _own(factors.RenewCodesView), name="mfa_generate_recovery_codes"),
    path("account/factors/passkeys/add/", _own(factors.AddPasskeyView), name="mfa_add_webauthn"),
    path("account/factors/passkeys/<int:pk>/remove/", _own(factors.RemovePasskeyView), name="mfa_remove_webauthn"),
    path("account/sessions/", login_sessions.sessions, name="login-sessions"),
    path("account/sessions/<int:session_id>/end/", login_sessions.end, name="login-session-end"),
    path("account/sessions/end-others/", login_sessions.end_others, name="login-sessions-end-others"),
    path("language/", languages.choose, name="language"),
    path("account/tokens/", api_tokens.tokens, name="own-tokens"),
    path("account/tokens/new/", api_tokens.make, name="own-token-add"),
    path("account/tokens/<int:token_id>/revoke/", api_tokens.revoke, name="own-token-revoke"),
]
