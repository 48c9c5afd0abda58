"""What a connection found of a host's certificate."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The validity of a host certificate. ``until``: ``None`` for no end."""

    since: datetime
    until: datetime | None
