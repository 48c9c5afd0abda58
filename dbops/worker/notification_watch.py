"""Look for events, and write what rules want to be sent."""

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from dbops.database import clock
from dbops.lifecycle import notification_events
from dbops.queries.notifications.occurrences import news, states_now


def watch() -> bool:
    """Compare what is so now with the open events. Return whether this process did, or another one does."""
    lease = notification_events.claim_watch()
    if lease is None:
        return False
    try:
        now = clock.now()
        return notification_events.write_events(
            lease,
            states_now(
                now,
                limit_within=timedelta(days=settings.LIMIT_NOTICE_DAYS),
                certificate_within=timedelta(days=settings.CERTIFICATE_NOTICE_DAYS),
            ),
            news(now, lease.since),
            now,
            zone=timezone.get_current_timezone(),
            delays={"cluster.blocked": settings.BLOCKED_TOO_LONG_SECONDS},
        )
    finally:
        notification_events.release_watch(lease)
