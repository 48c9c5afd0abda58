"""Access tokens for machines: made once, shown once, kept as a digest, revoked by a person."""

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from dbops.access import require_operator
from dbops.engine.errors import Refused
from dbops.models import AccessToken, Cluster
from dbops.operations.audit import record

SECRET_BYTES = 32
PREFIX_CHARACTERS = 6
#: The time of the last use is written at most once in this time: a calendar asks all day long.
USED_EVERY = timedelta(hours=1)


def make_token(*, actor: User, name: str, purpose: str, cluster: Cluster | None = None) -> tuple[AccessToken, str]:
    """Make a token for one purpose, of one cluster or (``None``) of all.

    Returns:
        The row, and the secret: it is nowhere else, and cannot be shown again.

    Raises:
        Refused: ``access.denied``, ``token.invalid``.
    """
    doing = f"Making the token {name}"
    require_operator(actor, doing)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    row = AccessToken(
        name=name,
        purpose=purpose,
        prefix=secret[:PREFIX_CHARACTERS],
        digest=digest(secret),
        cluster=cluster,
        created_by=actor.get_username(),
        created_at=timezone.now(),
    )
    try:
        with transaction.atomic():
            row.full_clean(exclude={"last_used_at", "revoked_at"})
            row.save()
            told = {"purpose": purpose, "cluster": cluster.name if cluster else "all", "begins_with": row.prefix}
            record(actor=actor.get_username(), action="token.made", subject=name, **told)
    except (ValidationError, IntegrityError) as error:
        found = " ".join(error.messages) if isinstance(error, ValidationError) else "somebody else has taken the name"
        raise Refused(
            "token.invalid", doing, found=found, left="No token was made.", next_step="Correct it and send it again."
        ) from error
    return row, secret


def revoke_token(*, actor: User, token: AccessToken) -> None:
    """Make a token useless, at once and for ever. A second time changes nothing.

    Raises:
        Refused: ``access.denied``.
    """
    require_operator(actor, f"Revoking the token {token.name}")
    with transaction.atomic():
        if AccessToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
            record(actor=actor.get_username(), action="token.revoked", subject=token.name, purpose=token.purpose)


def token_of(secret: str, *, purpose: str) -> AccessToken | None:
    """Return the token that a machine has shown, ``None`` for one that is not known, revoked, or for something else."""
    now = timezone.now()
    # The digest is looked up as a whole: how long that takes tells nothing of the secret.
    row = AccessToken.objects.filter(digest=digest(secret), purpose=purpose, revoked_at=None).first()
    if row is not None and (row.last_used_at is None or row.last_used_at < now - USED_EVERY):
        AccessToken.objects.filter(pk=row.pk).update(last_used_at=now)
    return row


def digest(secret: str) -> str:
    """Return what is kept of a secret: it has 256 random bits, so a plain SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()
