"""CA certificates of database servers: read how long they are valid. Whether a server's is signed by one, its login checks."""

from dataclasses import dataclass
from datetime import datetime

from cryptography.x509 import load_pem_x509_certificates


@dataclass(frozen=True, slots=True)
class Validity:
    """From when until when a certificate is valid."""

    since: datetime
    until: datetime


def first_to_end(pem: str) -> Validity | None:
    """Return the validity of the certificate that ends first; ``None`` if none can be read."""
    try:
        found = load_pem_x509_certificates(pem.encode())
        ends = [Validity(one.not_valid_before_utc, one.not_valid_after_utc) for one in found]
    except ValueError:
        return None
    return min(ends, key=lambda one: one.until, default=None)
