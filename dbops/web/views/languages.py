"""Choose the language of the pages: for the account, and for this browser."""

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from dbops.operations import account_admin as verbs
from dbops.web.middleware.languages import CHOSEN


@require_POST
@login_not_required
def choose(request: HttpRequest) -> HttpResponse:
    """Set the language and return to the page. Without a login, for this browser alone."""
    code = request.POST.get("language", "")
    if code not in dict(settings.LANGUAGES):
        return HttpResponseBadRequest()
    if isinstance(request.user, User):
        verbs.choose_language(request.user, code)
    setattr(request, CHOSEN, code)
    page = request.POST.get("next", "")
    is_ours = page.startswith("/") and url_has_allowed_host_and_scheme(page, allowed_hosts=None)
    return redirect(page if is_ours else "fleet")
