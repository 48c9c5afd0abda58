"""Decorators that check who may open a page. ``LoginRequiredMiddleware`` already requires a login.

All set on the request what templates ask: ``may_view``, ``may_operate`` and ``may_approve`` the cluster of the URL, ``operated``
and ``administered``, the clusters on which the person may, and ``may_operate_fleet``, all of them and what belongs to none.
"""

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from dbops.engine.access.roles import Action, HeldRoles, may, may_somewhere
from dbops.engine.phrases import phrase
from dbops.models import Cluster
from dbops.security.permissions import roles_of
from dbops.web.templatetags.phrases import translated
from dbops.web.url_clusters import cluster_of

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)
TITLES = ((Action.OPERATE, phrase("Operator")), (Action.APPROVE, phrase("Approver")))


class AllowedClusters:
    """The clusters on which a person may do something, by key or name: ``{% if cluster.pk in request.operated %}``."""

    def __init__(self, roles: HeldRoles, action: Action) -> None:
        self.roles, self.action = roles, action

    def __contains__(self, cluster: int | str | None) -> bool:
        if isinstance(cluster, str):
            return may(self.roles, self.action) or cluster in self.names
        return may(self.roles, self.action, cluster)

    def __bool__(self) -> bool:
        return may_somewhere(self.roles, self.action)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of single clusters. One query."""
        keys = [cluster for cluster in self.roles.on if may(self.roles, self.action, cluster)]
        return frozenset(Cluster.objects.filter(pk__in=keys).values_list("name", flat=True))


def held_role(roles: HeldRoles) -> str:
    """Return an account's roles for its menu."""
    found = next((title for action, title in TITLES if may(roles, action)), phrase("Viewer (read-only)"))
    if not roles.on:
        return translated(found)
    said = ngettext("%(role)s, roles on %(number)s cluster", "%(role)s, roles on %(number)s clusters", len(roles.on))
    return said % {"role": translated(found), "number": len(roles.on)}


def note_access(request: HttpRequest) -> HeldRoles:
    """Set what templates ask. One query; a second one if the person has roles on single clusters. Return the roles."""
    roles = roles_of(request.user)
    cluster = cluster_of(request.resolver_match) if roles.on else None
    noted: dict[str, Any] = {
        "may_view": may(roles, Action.VIEW),
        "may_operate": may(roles, Action.OPERATE, cluster),
        "may_approve": may(roles, Action.APPROVE, cluster),
        "may_administer": may(roles, Action.ADMINISTER, cluster),
        "may_operate_fleet": may(roles, Action.OPERATE),
        "operated": AllowedClusters(roles, Action.OPERATE),
        "administered": AllowedClusters(roles, Action.ADMINISTER),
        "held_role": held_role(roles),
    }
    for name, value in noted.items():
        setattr(request, name, value)
    return roles


def _page(
    view: Callable[Concatenate[HttpRequest, P], R], allows: Callable[[HttpRequest, HeldRoles], bool], denied: object
) -> Callable[Concatenate[HttpRequest, P], R]:
    @wraps(view)
    def inner(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
        roles = note_access(request)
        if not allows(request, roles):
            raise PermissionDenied(str(denied))
        return view(request, *args, **kwargs)

    return inner


def viewer_page(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
    """Allow everybody with a group, others get 403."""
    denied = gettext_lazy("Your account is in none of the groups 'viewer', 'approver' and 'operator'.")
    return _page(view, lambda _, roles: may(roles, Action.VIEW), denied)


def operator_page(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
    """Allow operators of the URL's cluster; without one, operators of the fleet. Others get 403."""
    denied = gettext_lazy("Only operators may do this. Ask an administrator for the role 'operator'.")
    return _page(view, lambda request, _: bool(getattr(request, "may_operate", False)), denied)


def some_operator_page(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
    """Allow operators of any cluster, others get 403: the form names the cluster, and the operation checks it."""
    denied = gettext_lazy("Only operators may do this. Ask an administrator for the role 'operator'.")
    return _page(view, lambda _, roles: may_somewhere(roles, Action.OPERATE), denied)


def approver_page(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
    """Allow those who may approve rebuilds of the URL's cluster, others get 403."""
    denied = gettext_lazy("Only approvers and operators may do this. Ask an administrator for the role 'approver'.")
    return _page(view, lambda request, _: bool(getattr(request, "may_approve", False)), denied)


def settings_page(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
    """Allow operators of the fleet, and admins of the URL's cluster. Others get 403."""
    denied = gettext_lazy("Only operators of the fleet and admins of this cluster may do this.")

    def allows(request: HttpRequest, roles: HeldRoles) -> bool:
        return may(roles, Action.OPERATE) or bool(getattr(request, "may_administer", False))

    return _page(view, allows, denied)


def superuser_page(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
    """Allow superusers, others get 403."""
    denied = gettext_lazy("Only superusers may do this. Ask one of them.")
    return _page(view, lambda _, roles: may(roles, Action.ADMINISTER), denied)


def own_page(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
    """Allow every user: the page is about the person's own account."""

    @wraps(view)
    def inner(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
        user_of(request)
        note_access(request)
        return view(request, *args, **kwargs)

    return inner


def user_of(request: HttpRequest) -> User:
    """Return the user. For pages with one of these decorators, which require a user."""
    if not isinstance(request.user, User):
        raise PermissionDenied(_("Log in first."))
    return request.user
