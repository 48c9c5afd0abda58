"""Redirect people whose group needs a second factor to the page that adds one, from every other page."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from dbops.security.permissions import needs_second_factor
from dbops.web.login.finish import METHOD, PROVIDER, WITH_FACTOR
from dbops.web.middleware.given_passwords import MUST_CHANGE

#: by URL name
ALLOWED = frozenset(
    {
        *(
            "own-password",
            "logout",
            "login",
            "account_reauthenticate",
            "mfa_reauthenticate",
            "mfa_reauthenticate_webauthn",
        ),
        *("mfa_index", "mfa_activate_totp", "mfa_add_webauthn", "mfa_view_recovery_codes"),
    }
)


class SecondFactorMiddleware(MiddlewareMixin):
    """Redirect each request of such a session, whatever its method. The provider checks the factors of its own people."""

    def process_view(self, request: HttpRequest, view: Any, *_: Any) -> HttpResponse | None:
        match = request.resolver_match
        if getattr(view, "login_required", True) is False or (match and match.url_name in ALLOWED):
            return None
        session = request.session
        if session.get(WITH_FACTOR) or session.get(MUST_CHANGE) or session.get(METHOD) == PROVIDER:
            return None
        if not needs_second_factor(request.user):
            return None
        if request.headers.get("HX-Request"):
            return HttpResponse(status=204, headers={"HX-Redirect": reverse("mfa_index")})
        return redirect("mfa_index")
