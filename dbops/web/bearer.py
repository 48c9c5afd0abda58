"""Check the access token that a machine sends in the header ``Authorization``."""

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse

from dbops.engine.errors import Refused
from dbops.models import AccessToken
from dbops.operations.tokens import digest_of, token_of

#: Per token and web process. A host with fifty backups at a time stays far below.
REQUESTS_A_MINUTE = 300


def bearer_token(request: HttpRequest, purpose: str) -> AccessToken:
    """Return the request's valid token.

    Raises:
        Refused: it has none for this purpose (``token.unknown``), or sent too many requests (``report.too_many``).
    """
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    secret = secret.strip() if scheme.lower() == "bearer" else ""
    # Counted per presented secret, valid or not: repeated guesses of one secret do not reach the database.
    counter = f"bearer-{digest_of(secret)}"
    cache.add(counter, 0, timeout=60)
    try:
        count = cache.incr(counter)
    except ValueError:  # expired between the two calls
        count = 1
    if count > REQUESTS_A_MINUTE:
        raise Refused(
            "report.too_many",
            "Checking the access token",
            cause=f"this token sent more than {REQUESTS_A_MINUTE} requests in a minute",
        )
    return token_of(secret, purpose)


def challenge(answer: HttpResponse) -> HttpResponse:
    """Add the headers that say how to try again to an answer that refuses a token."""
    if answer.status_code == 401:
        answer["WWW-Authenticate"] = 'Bearer realm="dbops"'
    elif answer.status_code == 429:
        answer["Retry-After"] = "60"
    return answer
