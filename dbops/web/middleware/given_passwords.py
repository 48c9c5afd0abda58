"""Redirect people whose password another person set to the page that changes it, from every other page."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

#: In the session from the login on. A password that is set later ends the session.
MUST_CHANGE = "must_change_password"
#: by URL name
ALLOWED = frozenset({"own-password", "logout", "login"})


class GivenPasswordMiddleware(MiddlewareMixin):
    """Redirect each request of such a session, whatever its method. The session is loaded anyway: no query."""

    def process_view(self, request: HttpRequest, view: Any, *_: Any) -> HttpResponse | None:
        match = request.resolver_match
        if getattr(view, "login_required", True) is False or (match and match.url_name in ALLOWED):
            return None
        if not request.session.get(MUST_CHANGE):
            return None
        if request.headers.get("HX-Request"):
            return HttpResponse(status=204, headers={"HX-Redirect": reverse("own-password")})
        return redirect("own-password")
