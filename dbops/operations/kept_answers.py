"""Answer each request of the API that changes something once, however often it is sent."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, OperationalError, transaction

from dbops.database import clock
from dbops.database.errors import lost_a_race
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.models import AccessToken, KeptAnswer

KEPT = timedelta(hours=24)
#: A request that is not answered after this time has lost its process. The same request may then be tried again.
LONGEST_REQUEST = timedelta(minutes=2)
#: Attempts to claim a key when the database chooses another transaction (a deadlock).
CHANCES = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of an answer. ``is_repeated``: it was given before, and nothing was done now."""

    status: int
    body: str
    is_repeated: bool = False


def answer_once(*, token: AccessToken, key: str, digest: str, answer: Callable[[], Answer]) -> Answer:
    """Return the kept answer to this request, or answer it and keep that for a day.

    An unexpected error is not kept: the request can be sent again.

    Args:
        key: the client's name of the request, unique for the token.
        digest: of method, address and body.

    Raises:
        Refused: the key belongs to another request (``idempotency.mismatch``), or to one that is being answered
            (``idempotency.in_progress``). Else as ``answer``.
    """
    row = _claim(token, key, digest, clock.now())
    if row.status is not None:
        return Answer(row.status, row.body, is_repeated=True)
    try:
        given = answer()
    except BaseException:
        KeptAnswer.objects.filter(pk=row.pk, begun_at=row.begun_at).delete()
        raise
    KeptAnswer.objects.filter(pk=row.pk, begun_at=row.begun_at).update(status=given.status, body=given.body)
    return given


def _claim(token: AccessToken, key: str, digest: str, now: datetime) -> KeptAnswer:
    """Return the row of a request: without a status, it is this caller's to answer."""
    for chances in reversed(range(CHANCES)):
        try:
            return _claim_once(token, key, digest, now)
        except OperationalError as error:
            if not (chances and lost_a_race(error)):
                raise
    raise AssertionError("the last chance returns or raises")


def _claim_once(token: AccessToken, key: str, digest: str, now: datetime) -> KeptAnswer:
    rows = KeptAnswer.objects.filter(token=token, key=key)
    KeptAnswer.objects.filter(token=token, begun_at__lt=now - KEPT).delete()
    row = rows.first()
    if row is None:
        try:
            with transaction.atomic():
                return KeptAnswer.objects.create(token=token, key=key, digest=digest, begun_at=now)
        except IntegrityError:
            row = rows.first()
    operation = phrase("Answering a repeated request")
    if row is not None and row.digest != digest:
        raise Refused("idempotency.mismatch", operation, cause=phrase("another request of this token has the same key"))
    if row is not None and row.status is not None:
        return row
    # After so long, the process that began it is gone. Of two that repeat it, one changes the row.
    is_abandoned = row is not None and row.begun_at < now - LONGEST_REQUEST
    if row is not None and is_abandoned and _taken_over(row, now):
        return row
    raise Refused("idempotency.in_progress", operation, cause=phrase("the same request is being answered"))


def _taken_over(row: KeptAnswer, now: datetime) -> bool:
    taken = KeptAnswer.objects.filter(pk=row.pk, begun_at=row.begun_at, status=None).update(begun_at=now)
    row.begun_at = now
    return bool(taken)
