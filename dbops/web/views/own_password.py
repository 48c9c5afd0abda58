"""Change one's own password."""

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from dbops.audit.log import current_origin
from dbops.engine.errors import Refused
from dbops.operations.account_admin import change_own_password
from dbops.operations.login_limits import count_login
from dbops.web.decorators import own_page, user_of
from dbops.web.forms.accounts import OwnPasswordForm
from dbops.web.middleware.given_passwords import MUST_CHANGE
from dbops.web.templatetags.phrases import translated


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
@never_cache
@own_page
def own_password(request: HttpRequest) -> HttpResponse:
    """Show the form; change the password on POST. Wrong current passwords count like those of the login page."""
    user = user_of(request)
    form = OwnPasswordForm(user, request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid() and _knows_password(request, form):
        try:
            given = form.cleaned_data
            changed = change_own_password(user=user, password=given["password"], with_tokens=given["revoke_tokens"])
        except Refused as error:
            form.add_error("password", f"{translated(error.cause)} {translated(error.next_step)}")
        else:
            update_session_auth_hash(request, changed)
            request.session.pop(MUST_CHANGE, None)
            messages.success(request, _("Password changed."))
            return redirect("fleet")
    context = {"form": form, "is_given": MUST_CHANGE in request.session}
    return render(request, "registration/own_password.html", context, status=422 if form.errors else 200)


def _knows_password(request: HttpRequest, form: OwnPasswordForm) -> bool:
    user = user_of(request)
    attempt = count_login(user.get_username(), current_origin().address)
    if attempt.blocked_until is None and user.check_password(form.cleaned_data["current"]):
        attempt.succeeded()
        return True
    code = "wrong" if attempt.blocked_until is None else "blocked"
    text = (
        _("This is not the current password.") if code == "wrong" else _("Too many wrong passwords. Wait 15 minutes.")
    )
    form.add_error("current", ValidationError(text, code=code))
    return False
