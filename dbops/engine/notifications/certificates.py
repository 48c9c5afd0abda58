"""When the end of a certificate is worth a message."""

from datetime import datetime, timedelta

#: A certificate for hours is renewed all day. It is reported when less than this part of its validity is left.
PART = 4


def ends_soon(since: datetime, until: datetime | None, now: datetime, within: timedelta) -> bool:
    """Whether a certificate ends soon, or has ended.

    Args:
        since, until: its validity; ``None``: without an end.
        within: how long before its end it is reported at the earliest.
    """
    return until is not None and until - now <= min(within, (until - since) / PART)
