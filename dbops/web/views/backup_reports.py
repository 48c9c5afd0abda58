"""HTTP API for backup reports: JSON with a token in the header, no cookies."""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from dbops.engine.errors import Refused
from dbops.models import AccessToken
from dbops.operations import backup_reports
from dbops.operations.tokens import REPORT
from dbops.web.bearer import bearer_token, challenge

BODY_BYTES = 16 * 1024
STATUS = {
    "token.unknown": 401,
    "report.unknown_instance": 404,
    "report.key_taken": 409,
    "report.too_large": 413,
    "report.too_many": 429,
    "report.wrong_method": 405,
}

View = Callable[..., HttpResponse]


def api(method: str) -> Callable[[View], View]:
    """Require a report token, and return refusals as JSON with code and next step."""

    def decorate(view: View) -> View:
        @login_not_required
        @csrf_exempt
        @never_cache
        @wraps(view)
        def inner(request: HttpRequest, **words: Any) -> HttpResponse:
            try:
                if request.method != method:
                    raise _wrong_method(method)
                return view(request, bearer_token(request, REPORT), **words)
            except Refused as error:
                return _refusal(error, method)

        return inner

    return decorate


@api("POST")
def report(request: HttpRequest, token: AccessToken, *, key: str, kind: str) -> HttpResponse:
    """Record a reported start, heartbeat or end of a backup."""
    run = backup_reports.take_report(token=token, key=key, kind=kind, said=_body(request))
    return JsonResponse({"run": run.pk, "status": run.status, "origin": run.origin, "flags": run.flags})


@api("GET")
def may_start(request: HttpRequest, token: AccessToken) -> HttpResponse:
    """Return whether a backup of the instance may start, and if not, the expected time."""
    asked = request.GET
    leave = backup_reports.may_start(
        token=token, instance=asked.get("instance", ""), schedule=asked.get("schedule", "")
    )
    return JsonResponse(
        {
            "instance": leave.instance,
            "may_start": leave.may_start,
            "because": leave.because,
            "since": leave.since.isoformat() if leave.since else None,
            "until": leave.until.isoformat() if leave.until else None,
        }
    )


def _body(request: HttpRequest) -> dict[str, Any]:
    raw = request.read(BODY_BYTES + 1)
    if len(raw) > BODY_BYTES:
        raise Refused(
            "report.too_large",
            "Reading a backup report",
            cause=f"the body has more than {BODY_BYTES} bytes",
        )
    try:
        said = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise Refused(
            "report.invalid",
            "Reading a backup report",
            cause="the body is not a JSON object",
            next_step='Send a JSON object, for example {"instance": "backup-1", "method": "dump"}.',
        )
    return said


def _wrong_method(method: str) -> Refused:
    return Refused(
        "report.wrong_method",
        "Reading a backup report",
        cause=f"this address accepts only {method}",
    )


def _refusal(error: Refused, method: str) -> HttpResponse:
    answer = JsonResponse({"error": error.as_record()}, status=STATUS.get(error.code, 400))
    if answer.status_code == 405:
        answer["Allow"] = method
    return challenge(answer)
