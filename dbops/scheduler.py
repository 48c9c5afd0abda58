"""Who starts next, and why not."""

import logging

from django.utils import timezone

from dbops import lifecycle
from dbops.engine.states import Status
from dbops.models import Rebuild

log = logging.getLogger(__name__)


def start_what_can() -> list[int]:
    """Start every queued rebuild whose source and target can be held, highest priority first, then oldest. Return their ids.

    Each instance has its own line: a rebuild starts when it is the first in the lines of both of its instances. So nobody is
    passed while a hold goes in the middle of this, nobody waits for ever for two instances that are free by turns, and who
    waits for a busy source keeps nobody from a free one.
    """
    started = []
    now = timezone.now()
    queued = _queued()
    taken = lifecycle.held()  # read after the rows: no reason is replaced by an older one
    for rebuild in queued:
        if rebuild.expires_at and rebuild.expires_at <= now:
            lifecycle.end_queued(rebuild, Status.EXPIRED, "Expired: it could not start in time.")
            continue
        reasons = [taken[instance.pk] for instance, _ in lifecycle.claims_of(rebuild) if instance.pk in taken]
        if reasons:
            lifecycle.wait(rebuild, "; ".join(reasons))
        elif not (reason := lifecycle.start(rebuild)):
            started.append(rebuild.pk)
        else:
            log.debug("rebuild %s waits: %s", rebuild.pk, reason)
        _claim(taken, rebuild, "is held by" if rebuild.pk in started else "is wanted first by")
    return started


def _queued() -> list[Rebuild]:
    rows = Rebuild.objects.filter(status=Status.QUEUED).select_related("source", "target").defer("plan", "memory")
    return list(rows.order_by("-priority", "requested_at", "pk"))


def _claim(taken: dict[int, str], rebuild: Rebuild, how: str) -> None:
    """Note that those who come later must wait for this rebuild's instances."""
    for instance, purpose in lifecycle.claims_of(rebuild):
        taken.setdefault(instance.pk, f"{instance.name} {how} rebuild {rebuild.pk} as its {purpose}")
