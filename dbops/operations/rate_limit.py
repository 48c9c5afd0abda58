"""Set and remove the rate limit of a queued or running rebuild."""

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record
from dbops.engine.methods import method_named
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.tuning.stream_rate import MIB, SLOWEST
from dbops.lifecycle import rebuild_requests
from dbops.loaders.plan_inputs import slowest_rate
from dbops.messaging.wakeups import nudge
from dbops.models import Instance, Rebuild
from dbops.security.permissions import require_operator

#: Faster than any existing link; a higher number is a typing error.
FASTEST = 100 * 1024 * MIB


def set_stream_rate(*, actor: User, rebuild: Rebuild, rate: int | None) -> None:
    """Set or remove the rate limit of a rebuild's stream. It takes effect within seconds.

    Args:
        rate: bytes a second; ``None`` for no limit.

    Raises:
        Refused: ``access.denied``; the rate is invalid, or so low that the source's redo log would be overwritten
            (``rebuild.rate``); the stream has ended, or there is none (``rebuild.no_stream``).
    """
    operation = phrase("Setting the rate limit of rebuild {rebuild}", rebuild=rebuild.pk)
    require_operator(actor, operation, rebuild.target.cluster_id)
    if not can_be_held(rebuild.method):
        raise Refused.unchanged(
            "rebuild.no_stream", operation, phrase("the method {method} has no stream", method=rebuild.method)
        )
    if rate is not None:
        check_rate(operation, from_record(Plan, rebuild.plan), rebuild.source, rate)
    name, before = actor.get_username(), rebuild.stream_rate
    text = (
        phrase("Rate limit set to {rate} MiB/s by {name}.", rate=f"{rate / MIB:.1f}", name=name)
        if rate
        else phrase("Rate limit removed by {name}.", name=name)
    )
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
        raise Refused.unchanged("rebuild.no_stream", operation, phrase("its stream has ended"))


def can_be_held(method: str) -> bool:
    """Return whether the stream of a method can have a rate limit."""
    return method_named(method).streams


def check_rate(operation: str, plan: Plan, source: Instance, rate: int) -> None:
    """Refuse a rate outside the bounds of a plan (``rebuild.rate``)."""
    slowest = slowest_rate(plan, source.pk)
    if slowest <= rate <= FASTEST:
        return
    why = (
        phrase("the source overwrites its redo log before the copy reads it")
        if slowest > SLOWEST
        else phrase("the copy hardly moves")
    )
    found = phrase(
        "{rate} MiB/s was entered; below {slowest} MiB/s {why}",
        rate=f"{rate / MIB:.2f}",
        slowest=f"{slowest / MIB:.2f}",
        why=why,
    )
    raise Refused.unchanged(
        "rebuild.rate",
        operation,
        found,
        next_step=phrase("Enter {slowest} MiB/s or more, or remove the limit.", slowest=f"{slowest / MIB:.2f}"),
    )
