"""Create, revoke and check access tokens."""

import hashlib
import hmac
import secrets
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q

from dbops.audit.log import SYSTEM, append, current_origin
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import joined, phrase
from dbops.models import AccessToken, Cluster
from dbops.operations.login_limits import TOKEN, count_wrong_token

REPORT, CALENDAR, METRICS, API = "report", "calendar", "metrics", "api"
PREFIX_CHARACTERS = 8
#: Minimum interval between two updates of a token's last use.
USE_NOTED_EVERY = {
    REPORT: timedelta(minutes=1),
    CALENDAR: timedelta(hours=1),
    METRICS: timedelta(minutes=5),
    API: timedelta(minutes=1),
}


def make_token(*, actor: str, name: str, purpose: str, cluster: Cluster | None) -> tuple[AccessToken, str]:
    """Create a token and return it with its secret, which is stored nowhere and can't be shown again.

    Args:
        actor: for the audit log; the caller checks the permission.
        cluster: the cluster that the token is limited to; required for report tokens.

    Raises:
        Refused: the name or purpose is invalid, or the name is taken (``token.invalid``).
    """
    secret = secrets.token_urlsafe(32)
    token = AccessToken(
        name=name,
        purpose=purpose,
        prefix=secret[:PREFIX_CHARACTERS],
        digest=digest_of(secret),
        cluster=cluster,
        created_by=actor,
        created_at=clock.now(),
    )
    check_token(token)
    try:
        with transaction.atomic():
            token.save(force_insert=True)
            where = cluster.name if cluster else ""
            append(actor=actor, action="token.made", subject=name, cluster=where, detail={"purpose": purpose})
    except IntegrityError as error:
        raise _invalid(name, phrase("a token of this name exists; revoked tokens keep their names")) from error
    return token, secret


def revoke_token(*, actor: str, name: str) -> AccessToken:
    """Revoke a token for good. Revoking twice changes nothing.

    Raises:
        Refused: there is no token of this name (``token.not_found``).
    """
    with transaction.atomic():
        revoked = AccessToken.objects.filter(name=name, revoked_at=None).update(revoked_at=clock.now())
        token = AccessToken.objects.filter(name=name).first()
        if token is None:
            raise Refused(
                "token.not_found",
                phrase("Revoking token {name}", name=f"{name!r}"),
                cause=phrase("there is no token of this name"),
            )
        if revoked:
            append(actor=actor, action="token.revoked", subject=name, detail={"purpose": token.purpose})
    return token


def token_of(secret: str, purpose: str) -> AccessToken:
    """Return the valid token with this secret.

    Raises:
        Refused: the token is unknown, revoked, expired, for another purpose, or its account is inactive
            (``token.unknown``); the error does not say which.
            The request's address sent too many wrong ones (``report.too_many``).
    """
    digest, now, found = digest_of(secret), clock.now(), None
    # Text with a NUL or half a character is no secret of ours, and PostgreSQL takes neither.
    prefix = secret[:PREFIX_CHARACTERS] if secret.isascii() and secret.isprintable() else ""
    for token in AccessToken.objects.select_related("cluster", "user").filter(prefix=prefix):
        if hmac.compare_digest(token.digest, digest):
            found = token
    if found is None or found.purpose != purpose or not found.is_valid_at(now):
        _refuse_guesses()
        raise Refused(
            "token.unknown",
            phrase("Checking the access token"),
            cause=phrase("the request has no valid token for this purpose"),
        )
    oldest = now - USE_NOTED_EVERY[purpose]
    stale = Q(last_used_at=None) | Q(last_used_at__lt=oldest)
    if found.last_used_at is None or found.last_used_at < oldest:
        AccessToken.objects.filter(stale, pk=found.pk).update(last_used_at=now)
    return found


def _refuse_guesses() -> None:
    attempt = count_wrong_token(current_origin().address)
    if attempt.is_first_blocked:
        append(actor=SYSTEM, action="token.blocked", subject="dbops", outcome="refused")
    if attempt.blocked_until is not None:
        raise Refused(
            "report.too_many",
            phrase("Checking the access token"),
            cause=phrase("this address sent more than {most} wrong tokens", most=TOKEN.most),
        )


def digest_of(secret: str) -> str:
    """Return the stored digest of a secret. It has 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def check_token(token: AccessToken) -> None:
    """Refuse a token with an invalid field (``token.invalid``)."""
    problems = []
    try:
        token.clean_fields(exclude=["created_by", "last_used_at", "revoked_at", "user"])
    except ValidationError as error:
        problems = [f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items()]
    if token.purpose == REPORT and token.cluster is None:
        problems.append(phrase("cluster: a report token needs a cluster"))
    if token.purpose == API and not (token.user_id and token.scope and token.expires_at):
        problems.append(phrase("purpose: an API token needs an account, a scope and an expiry"))
    if problems:
        raise _invalid(token.name, joined(problems))


def _invalid(name: str, found: str) -> Refused:
    return Refused.unchanged("token.invalid", phrase("Creating token {name}", name=f"{name!r}"), found)
