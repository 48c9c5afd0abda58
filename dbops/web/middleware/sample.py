"""Protect the sample: refuse every change, mark its exported files, and refuse a database of the other kind."""

import logging
import re
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from dbops.engine.errors import Refused
from dbops.sample.database_check import sample_guard
from dbops.security.permissions import sample_refusal
from dbops.web.api.problems import PREFIX, problem
from dbops.web.middleware.refusals import typed

log = logging.getLogger(__name__)

#: Allowed requests by URL name: log in, choose a default view or language, read the log, and plan.
ALLOWED = frozenset(
    {"login", "account_login", "logout", "default-view", "language", "audit-verify", "audit-export", "api-plan-rebuild"}
)
READING = frozenset({"GET", "HEAD", "OPTIONS"})
FILE_NAME = re.compile(r'filename="(?!sample-)')


class SampleMiddleware(MiddlewareMixin):
    """Refuse every request that is not listed as harmless, for present and future pages."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Answer 503 to every request, including health checks, if setting and database disagree."""
        if (refusal := _disagreement()) is None:
            return None
        log.error("%s", refusal)
        return _answer(request, refusal, "503.html", status=503)

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        match = request.resolver_match
        if not settings.SAMPLE or request.method in READING or (match and match.url_name in ALLOWED):
            return None
        return _answer(request, sample_refusal(f"{request.method} {request.path}"), "409.html", status=409)

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if settings.SAMPLE and (name := response.headers.get("Content-Disposition")):
            response.headers["Content-Disposition"] = FILE_NAME.sub('filename="sample-', name)
        return response


def _answer(request: HttpRequest, refusal: Refused, template: str, *, status: int) -> HttpResponse:
    error = refusal.as_record()
    if request.path_info.startswith(PREFIX):
        # `error` is the form of backup reports.
        return problem(refusal, status=status, error=error)
    return render(request, template, {"error": error, "typed": typed(request)}, status=status)


def _disagreement() -> Refused | None:
    try:
        return sample_guard.database_mismatch()
    except DatabaseError:  # the database is down, or has no tables yet: the page itself reports that
        return None
