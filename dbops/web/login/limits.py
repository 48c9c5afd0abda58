"""Limit how many logins one address begins that check no password here."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dbops.audit.log import append, current_origin
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.operations.login_limits import count_login_start


def limited_start(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Answer 429 beyond the limit. The first such request is in the audit log."""

    @wraps(view)
    def inner(request: HttpRequest, /, *args: Any, **kwargs: Any) -> HttpResponse:
        attempt = count_login_start(current_origin().address)
        if attempt.blocked_until is None:
            return view(request, *args, **kwargs)
        if attempt.is_first_blocked:
            append(actor="(unknown)", action="login.blocked", subject="dbops", outcome="refused")
        error = Refused(
            "login.too_many", phrase("Beginning a login"), cause=phrase("too many were begun from this address")
        )
        return render(request, "login/refused.html", {"error": error.as_record()}, status=429)

    return inner
