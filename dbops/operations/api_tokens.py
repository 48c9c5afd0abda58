"""API tokens: each acts for its account, and never with more rights than the account has then."""

import secrets
from collections.abc import Collection
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.models import AccessToken, Cluster
from dbops.operations.tokens import API, PREFIX_CHARACTERS, check_token, digest_of
from dbops.security.permissions import may_administer, may_view

READ, OPERATE = "read", "operate"


def make_api_token(
    *, actor: User, name: str, scope: str, clusters: Collection[Cluster] | None, days: int
) -> tuple[AccessToken, str]:
    """Create a token of the actor's own and return it with its secret, which is stored nowhere and can't be shown again.

    Args:
        scope: ``read`` or ``operate``.
        clusters: the clusters that it opens; ``None`` means all.
        days: until it expires.

    Raises:
        Refused: ``access.denied``; a value is invalid, or the name is taken (``token.invalid``).
    """
    operation = phrase("Creating token {name}", name=f"{name!r}")
    if not may_view(actor):
        raise Refused("access.denied", operation, cause=phrase("{actor} may not read", actor=actor))
    secret, now = secrets.token_urlsafe(32), clock.now()
    most = settings.API_TOKEN_MAX_DAYS
    if not 1 <= days <= most:
        raise Refused.unchanged(
            "token.invalid",
            operation,
            phrase("expiry: {days} days is out of range (1 to {most})", days=days, most=most),
        )
    if clusters is not None and not clusters:
        raise Refused.unchanged("token.invalid", operation, phrase("clusters: none is named"))
    token = AccessToken(
        name=name,
        purpose=API,
        prefix=secret[:PREFIX_CHARACTERS],
        digest=digest_of(secret),
        user=actor,
        scope=scope,
        is_for_all_clusters=clusters is None,
        expires_at=now + timedelta(days=days),
        created_by=actor.get_username(),
        created_at=now,
    )
    check_token(token)
    named = sorted(cluster.name for cluster in clusters or ())
    try:
        with transaction.atomic():
            token.save(force_insert=True)
            token.clusters.set(clusters or ())
            detail = {"purpose": API, "scope": scope, "clusters": named or "all", "days": days}
            append(actor=actor.get_username(), action="token.made", subject=name, detail=detail)
    except IntegrityError as error:
        found = phrase("a token of this name exists; revoked tokens keep their names")
        raise Refused.unchanged("token.invalid", operation, found) from error
    return token, secret


def revoke_api_tokens(*, actor: str, user: User) -> int:
    """Revoke all tokens of an account, each with its audit entry. The caller has checked the permission. Return their number."""
    with transaction.atomic():
        mine = AccessToken.objects.select_for_update().filter(user=user, purpose=API, revoked_at=None).order_by("pk")
        tokens = list(mine)
        AccessToken.objects.filter(pk__in=[token.pk for token in tokens]).update(revoked_at=clock.now())
        for token in tokens:
            detail = {"purpose": API, "account": user.get_username()}
            append(actor=actor, action="token.revoked", subject=token.name, detail=detail)
    return len(tokens)


def revoke_api_token(*, actor: User, token: AccessToken) -> None:
    """Revoke a token of the actor's own; a superuser can revoke all. Revoking twice changes nothing.

    Raises:
        Refused: ``access.denied``.
    """
    operation = phrase("Revoking token {token}", token=f"{token.name!r}")
    if token.user_id != actor.pk and not may_administer(actor):
        raise Refused("access.denied", operation, cause=phrase("it is a token of another account"))
    with transaction.atomic():
        if AccessToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=clock.now()):
            detail = {"purpose": token.purpose, "account": token.user.get_username() if token.user else ""}
            append(actor=actor.get_username(), action="token.revoked", subject=token.name, detail=detail)
