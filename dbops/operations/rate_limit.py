"""A stream is slowed down, and let go again, while it waits or runs."""

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record
from dbops.engine.methods import method_named
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.tuning.stream_rate import MIB, SLOWEST
from dbops.lifecycle import rebuild_requests
from dbops.loaders.plan_inputs import slowest_rate
from dbops.messaging.wakeups import nudge
from dbops.models import Instance, Rebuild
from dbops.security.permissions import require_operator

#: Faster than any link that is there; a number beyond is a slip of the hand.
FASTEST = 100 * 1024 * MIB


def set_stream_rate(*, actor: User, rebuild: Rebuild, rate: int | None) -> None:
    """Hold the stream of a rebuild to a rate, or let it go at full speed. It takes effect within seconds.

    Args:
        rate: bytes a second; ``None`` for full speed.

    Raises:
        Refused: ``access.denied``; the rate is so low that the source's redo log would be overwritten, or no rate at all
            (``rebuild.rate``); the stream is over, or there is none (``rebuild.no_stream``).
    """
    doing = f"Setting the rate of rebuild {rebuild.pk}"
    require_operator(actor, doing)
    if not can_be_held(rebuild.method):
        raise Refused.unchanged("rebuild.no_stream", doing, f"the method {rebuild.method} has no stream")
    if rate is not None:
        check_rate(doing, from_record(Plan, rebuild.plan), rebuild.source, rate)
    name, before = actor.get_username(), rebuild.stream_rate
    text = f"Stream at most {rate / MIB:.1f} MiB/s, by {name}." if rate else f"Stream at full speed, by {name}."
    with transaction.atomic():
        is_set = rebuild_requests.set_rate(rebuild, rate, text)
        if is_set:
            append(
                actor=name,
                action="rebuild.rate_changed",
                subject=rebuild.target.name,
                detail={"rebuild": rebuild.pk, "bytes_per_second": rate, "before": before},
            )
            nudge()
    rebuild.refresh_from_db()
    if not is_set:
        raise Refused.unchanged("rebuild.no_stream", doing, "its stream has ended")


def can_be_held(method: str) -> bool:
    """Tell whether the stream of a method can be held to a rate."""
    return method_named(method).streams


def check_rate(doing: str, plan: Plan, source: Instance, rate: int) -> None:
    """Refuse a rate outside the bounds of a plan (``rebuild.rate``)."""
    slowest = slowest_rate(plan, source.pk)
    if slowest <= rate <= FASTEST:
        return
    why = (
        "the source's redo log would be overwritten before it is read" if slowest > SLOWEST else "it would hardly move"
    )
    found = f"{rate / MIB:.2f} MiB/s was asked for; below {slowest / MIB:.2f} MiB/s {why}"
    raise Refused.unchanged(
        "rebuild.rate", doing, found, next_step=f"Enter {slowest / MIB:.2f} MiB/s or more, or remove the limit."
    )
