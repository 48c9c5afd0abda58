"""Show and confirm a follow-up: resume or roll back."""

import uuid

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.operations.follow_up_options import OPTIONS, follow_up_options
from dbops.operations.follow_ups import follow_up_plan, request_follow_up
from dbops.queries.rebuilds import pages as queries
from dbops.web.decorators import operator_page, user_of


class MethodConverter:
    """URL converter for the names of follow-ups."""

    regex = "|".join(OPTIONS)

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


#: The form field that fixes a refusal, by code.
FIELDS = {"rebuild.name": "typed_name", "rebuild.reason": "reason", "rebuild.ticket": "ticket"}


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def follow_up(request: HttpRequest, rebuild_id: int, method: str) -> HttpResponse:
    """Show the plan of a follow-up; queue it on POST."""
    found = queries.find(rebuild_id)
    if found is None:
        raise Http404(_("There is no rebuild %(number)s.") % {"number": rebuild_id})
    refused, status = None, 200
    if request.method == "POST":
        try:
            following = request_follow_up(
                actor=user_of(request),
                rebuild=found,
                method=method,
                typed_name=request.POST.get("typed_name", ""),
                reason=request.POST.get("reason", ""),
                request_key=_request_key(request),
                ticket=request.POST.get("ticket", "").strip(),
            )
        except Refused as error:
            refused, status = error, 409
        else:
            return redirect("rebuild", rebuild_id=following.pk)
    option = follow_up_options(found)[method]
    context = {
        "rebuild": found,
        "method": method,
        "option": option,
        "plan": follow_up_plan(found, option),
        "refused": refused,
        "typed": request.POST if request.method == "POST" else {"ticket": found.ticket},
        "ticket_pattern": found.target.cluster.ticket_pattern,
        "bad_field": FIELDS.get(refused.code, "") if refused else "",
        "focus": FIELDS.get(refused.code, "") if refused else "",
        "request_key": uuid.uuid4(),
    }
    return render(request, "rebuilds/follow_up.html", context, status=status)


def _request_key(request: HttpRequest) -> str:
    try:
        return str(uuid.UUID(request.POST.get("request_key", "")))
    except ValueError:
        raise Refused(
            "plan.incomplete",
            phrase("Confirming a follow-up of a rebuild"),
            cause=phrase("the form has no request key"),
        ) from None
