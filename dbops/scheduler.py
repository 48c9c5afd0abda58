"""Who starts next, and why not."""

import logging

from django.utils import timezone

from dbops import lifecycle
from dbops.engine.states import Status
from dbops.models import Rebuild

log = logging.getLogger(__name__)


def start_what_can() -> list[int]:
    """Start every queued rebuild whose source and target can be held, highest priority first, then oldest. Return their ids."""
    started = []
    now = timezone.now()
    queued = (
        Rebuild.objects.filter(status=Status.QUEUED)
        .select_related("source", "target")
        .order_by("-priority", "requested_at", "pk")
    )
    for rebuild in queued:
        if rebuild.expires_at and rebuild.expires_at <= now:
            lifecycle.end_queued(rebuild, Status.EXPIRED, "Expired: it could not start in time.")
        elif not (reason := lifecycle.start(rebuild)):
            started.append(rebuild.pk)
        else:
            log.debug("rebuild %s waits: %s", rebuild.pk, reason)
    return started
