"""Who calls the API, and what the token lets them see and do. The account's own rights are decided by the operations."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from ninja.security import HttpBearer

from dbops.audit.log import name_token
from dbops.engine.errors import Refused
from dbops.models import AccessToken, Cluster
from dbops.operations.api_tokens import OPERATE
from dbops.operations.tokens import API
from dbops.security.permissions import may_view
from dbops.web.api.problems import not_found
from dbops.web.bearer import bearer_token

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Caller:
    """The account of a request, limited by its token. ``clusters``: primary keys; ``None`` means all."""

    token: AccessToken
    user: User
    clusters: frozenset[int] | None

    def limited(self, rows: QuerySet[Row], path: str) -> QuerySet[Row]:
        """Return those rows that the token opens.

        Args:
            path: the lookup of their cluster, such as ``target__cluster``.
        """
        return rows if self.clusters is None else rows.filter(**{f"{path}__in": self.clusters})

    def cluster_names(self) -> frozenset[str] | None:
        """Return the names of the clusters that the token opens; ``None`` means all."""
        if self.clusters is None:
            return None
        return frozenset(Cluster.objects.filter(pk__in=self.clusters).values_list("name", flat=True))

    def must_operate(self) -> None:
        """Refuse a token that may only read (``token.scope``)."""
        if self.token.scope != OPERATE:
            raise Refused("token.scope", "Changing something", cause="the token may only read")

    def cluster(self, name: str) -> Cluster:
        """Return a cluster that the token opens."""
        return self.one(Cluster.objects.filter(name=name), "pk")

    def one(self, rows: QuerySet[Row], path: str) -> Row:
        """Return the one row, if the token opens it, else refuse (``api.not_found``): both cases look alike."""
        found = self.limited(rows, path).first()
        if found is None:
            raise not_found()
        return found


class Token(HttpBearer):
    """A token of the API in the header ``Authorization``. Cookies do not count, so that no other site can use them.

    ``accepted`` has the names of the query parameters by route and method: an unknown one is refused, because a filter with a typing
    error would show everything.
    """

    accepted: Mapping[tuple[str, str], Collection[str]]

    def __init__(self) -> None:
        super().__init__()
        self.accepted = {}

    def __call__(self, request: HttpRequest) -> Any:
        """Return the caller. Raises ``Refused``: ``token.unknown``, ``report.too_many``, ``access.denied``, ``api.invalid``."""
        caller = caller_of(request)
        match = request.resolver_match
        names = self.accepted.get((match.route if match else "", request.method or ""))
        unknown = sorted(set(request.GET) - set(names)) if names is not None else []
        if unknown:
            raise Refused("api.invalid", "Reading a request", cause=f"unknown query parameters: {', '.join(unknown)}")
        return caller

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        raise NotImplementedError("__call__ reads the header, so that a missing one is refused in the same way")


def caller_of(request: HttpRequest) -> Caller:
    """Return the caller of a request by its token."""
    token = bearer_token(request, API)
    user = token.user
    assert user is not None  # noqa: S101 - a token of this purpose has one
    if not may_view(user):
        raise Refused("access.denied", "Using the API", cause=f"{user} may not read")
    name_token(token.name)
    return Caller(token, user, clusters_of(token))


def clusters_of(token: AccessToken) -> frozenset[int] | None:
    """Return the clusters that a token opens, ``None`` for all."""
    if token.is_for_all_clusters:
        return None
    return frozenset(token.clusters.values_list("pk", flat=True))


def called_by(request: HttpRequest) -> Caller:
    """Return the caller that authentication found."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    return caller
