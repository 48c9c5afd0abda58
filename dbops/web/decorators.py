"""Decorators that check who may open a page. ``LoginRequiredMiddleware`` already requires a login."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

from dbops.security.permissions import may_administer, may_operate, may_view

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)


def viewer_page(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
    """Allow viewers and operators, others get 403. Sets ``request.may_operate`` and ``may_view`` for the template."""

    @wraps(view)
    def inner(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
        request.may_operate = may_operate(request.user)  # type: ignore[attr-defined]
        if not (request.may_operate or may_view(request.user)):  # type: ignore[attr-defined]
            raise PermissionDenied("Your account is in neither of the groups 'viewer' and 'operator'.")
        request.may_view = True  # type: ignore[attr-defined]
        return view(request, *args, **kwargs)

    return inner


def operator_page(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
    """Allow operators, others get 403. Sets ``request.may_operate`` and ``may_view`` for the template."""

    @wraps(view)
    def inner(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not may_operate(request.user):
            raise PermissionDenied("Only operators may do this. Ask an administrator for the group 'operator'.")
        request.may_operate = request.may_view = True  # type: ignore[attr-defined]
        return view(request, *args, **kwargs)

    return inner


def superuser_page(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
    """Allow superusers, others get 403. Sets ``request.may_operate`` and ``may_view`` for the template."""

    @wraps(view)
    def inner(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not may_administer(request.user):
            raise PermissionDenied("Only superusers may do this. Ask one of them.")
        request.may_operate = request.may_view = True  # type: ignore[attr-defined]
        return view(request, *args, **kwargs)

    return inner


def own_page(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
    """Allow every user: the page is about the person's own account. Sets ``request.may_operate`` and ``may_view`` for the menu."""

    @wraps(view)
    def inner(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
        user = user_of(request)
        request.may_operate, request.may_view = may_operate(user), may_view(user)  # type: ignore[attr-defined]
        return view(request, *args, **kwargs)

    return inner


def user_of(request: HttpRequest) -> User:
    """Return the user. For pages with one of these decorators, which require a user."""
    if not isinstance(request.user, User):
        raise PermissionDenied("Log in first.")
    return request.user
