"""Sign webhooks by Standard Webhooks 1.0 (https://www.standardwebhooks.com)."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime

from dbops.engine.phrases import phrase

PREFIX = "whsec_"
#: Bytes of a secret: the standard's limits, and what dbops makes.
FEWEST_BYTES, MOST_BYTES, MADE_BYTES = 24, 64, 32


def make_secret(random: bytes) -> str:
    """Return a secret made of ``MADE_BYTES`` random bytes."""
    return PREFIX + base64.b64encode(random).decode()


def check_secret(secret: str) -> None:
    """Check a secret of a person.

    Raises:
        ValueError: it does not begin with ``whsec_``, is no base64, or too short or long.
    """
    try:
        length = len(_key(secret))
    except binascii.Error as error:
        raise ValueError(phrase("the secret is no base64")) from error
    if not secret.startswith(PREFIX) or not FEWEST_BYTES <= length <= MOST_BYTES:
        raise ValueError(
            phrase(
                "the secret must be {prefix} and base64 of {fewest} to {most} bytes",
                prefix=PREFIX,
                fewest=FEWEST_BYTES,
                most=MOST_BYTES,
            )
        )


def headers(message: str, at: datetime, body: bytes, secrets: Iterable[str]) -> dict[str, str]:
    """Return the headers of a webhook, with a signature for each secret.

    Args:
        message: its id, the same for each attempt.
        at: time of this attempt.
    """
    seconds = str(int(at.timestamp()))
    signed = f"{message}.{seconds}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode() for secret in secrets]
    return {
        "webhook-id": message,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{one}" for one in signatures),
    }


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
