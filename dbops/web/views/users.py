"""Users and groups. For superusers."""

from collections.abc import Callable

from django import forms
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dbops.engine.errors import Refused
from dbops.operations import account_admin as verbs
from dbops.operations.cluster_roles import give_role, take_role
from dbops.queries.admin import accounts as queries
from dbops.queries.admin.sessions import factors_of, sessions_of
from dbops.web.decorators import superuser_page, user_of
from dbops.web.forms.accounts import ChangeForm, ClusterRoleForm, PasswordForm, UserForm
from dbops.web.refusal_texts import refusal_text
from dbops.web.templatetags.phrases import translated
from dbops.web.views.login_sessions import say_revoked


@require_GET
@never_cache
@superuser_page
def users(request: HttpRequest) -> HttpResponse:
    """List the accounts."""
    return render(request, "admin/users.html", {"accounts": queries.accounts()})


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
@never_cache
@superuser_page
def add(request: HttpRequest) -> HttpResponse:
    """Show an empty form, and add an account on POST."""
    form = UserForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        given = {name: form.cleaned_data[name] for name in ("name", "group", "password", "superuser")}
        if _did(form, lambda: verbs.add_account(actor=user_of(request), **given)):
            messages.success(request, _("Account %(name)s added.") % {"name": given["name"]})
            return redirect("users")
    return render(request, "admin/user_add.html", {"form": form}, status=422 if form.errors else 200)


@require_http_methods(["GET", "POST"])
@never_cache
@superuser_page
def user(request: HttpRequest, user_id: int) -> HttpResponse:
    """Show one account; change its group on POST."""
    user = _user(user_id)
    form = ChangeForm(user, request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        given = form.cleaned_data
        if _did(form, lambda: verbs.change_account(actor=user_of(request), user=user, **given)):
            messages.success(request, _("Account %(name)s saved.") % {"name": user.get_username()})
            return redirect("users")
    return _user_page(request, user, form)


@sensitive_post_parameters()
@require_POST
@superuser_page
def password(request: HttpRequest, user_id: int) -> HttpResponse:
    """Set a password. All other sessions of the account end."""
    user = _user(user_id)
    form = PasswordForm(user, request.POST)
    if form.is_valid() and _did(
        form, lambda: verbs.set_password(actor=user_of(request), user=user, password=form.cleaned_data["password"])
    ):
        if user.pk == user_of(request).pk:
            update_session_auth_hash(request, _user(user_id))
        messages.success(request, _("Password of %(name)s set.") % {"name": user.get_username()})
        return redirect("users")
    return _user_page(request, user, password_form=form)


@require_POST
@superuser_page
def deactivate(request: HttpRequest, user_id: int) -> HttpResponse:
    """Deactivate an account."""
    user = _user(user_id)
    verbs.deactivate(actor=user_of(request), user=user, seen=request.POST.get("seen", ""))
    messages.success(
        request, _("Account %(name)s deactivated. All its sessions ended.") % {"name": user.get_username()}
    )
    return redirect("users")


@require_POST
@superuser_page
def reactivate(request: HttpRequest, user_id: int) -> HttpResponse:
    """Reactivate an account."""
    user = _user(user_id)
    verbs.reactivate(actor=user_of(request), user=user, seen=request.POST.get("seen", ""))
    messages.success(request, _("Account %(name)s reactivated.") % {"name": user.get_username()})
    return redirect("users")


@require_POST
@superuser_page
def reset_factors(request: HttpRequest, user_id: int) -> HttpResponse:
    """Remove the second factors of an account whose owner lost them."""
    user = _user(user_id)
    verbs.reset_factors(actor=user_of(request), user=user)
    messages.success(
        request, _("Second factors of %(name)s removed. All its sessions ended.") % {"name": user.get_username()}
    )
    return redirect("users")


@require_POST
@superuser_page
def end_sessions(request: HttpRequest, user_id: int) -> HttpResponse:
    """End all sessions of an account, and revoke its API tokens on request."""
    user = _user(user_id)
    ended, revoked = verbs.end_sessions(actor=user_of(request), user=user, with_tokens="revoke_tokens" in request.POST)
    messages.success(
        request,
        ngettext("%(number)s session of %(name)s ended.", "%(number)s sessions of %(name)s ended.", ended)
        % {"number": ended, "name": user.get_username()},
    )
    say_revoked(request, revoked)
    return redirect("users")


@require_POST
@superuser_page
def roles(request: HttpRequest, user_id: int) -> HttpResponse:
    """Give or take a role on a cluster."""
    user = _user(user_id)
    form = ClusterRoleForm(request.POST)
    if not form.is_valid():
        return _user_page(request, user, role_form=form)
    given, is_given = form.cleaned_data, request.POST.get("action") != "take"
    (give_role if is_given else take_role)(actor=user_of(request), user=user, **given)
    said = (
        _("%(name)s is now %(role)s of %(cluster)s.")
        if is_given
        else _("%(name)s is no longer %(role)s of %(cluster)s.")
    )
    messages.success(
        request,
        said % {"name": user.get_username(), "role": translated(given["role"]), "cluster": given["cluster"].name},
    )
    return redirect("user", user_id=user.pk)


def _did(form: forms.Form, act: Callable[[], object]) -> bool:
    """Run the action; show a refusal above the form, which keeps its input."""
    try:
        act()
    except Refused as error:
        text = refusal_text(error, has_state=True)
        form.add_error(None, ValidationError(text, code=error.code))
        return False
    return True


def _user_page(
    request: HttpRequest,
    user: User,
    form: ChangeForm | None = None,
    password_form: PasswordForm | None = None,
    role_form: ClusterRoleForm | None = None,
) -> HttpResponse:
    is_wrong = any(one.errors for one in (form, password_form, role_form) if one)
    context = {
        "account": user,
        "form": form or ChangeForm(user),
        "password_form": password_form or PasswordForm(user),
        "role_form": role_form or ClusterRoleForm(),
        "roles": queries.roles_of_account(user),
        "seen": verbs.access_of(user),
        "is_self": user.pk == user_of(request).pk,
        "factors": factors_of(user),
        "sessions": sessions_of(user, current_key=request.session.session_key or ""),
    }
    return render(request, "admin/user.html", context, status=422 if is_wrong else 200)


def _user(user_id: int) -> User:
    return get_object_or_404(User, pk=user_id)
