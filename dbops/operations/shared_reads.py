"""Let a queued rebuild follow another one's read of the source, or leave it."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import OperationalError, transaction

from dbops.audit.log import append
from dbops.database.errors import lost_a_race
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record
from dbops.engine.methods import shareable
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.copy.shared_read import why_not_shared
from dbops.engine.states import Status
from dbops.lifecycle import shared_reads
from dbops.loaders.members import member_of
from dbops.loaders.shared_reads import leaders
from dbops.messaging.wakeups import nudge
from dbops.models import Instance, Rebuild
from dbops.security.permissions import require_operator


@dataclass(frozen=True, slots=True)
class Partner:
    """A rebuild with a read that can be shared. ``problem`` says why not, or is ``""``."""

    rebuild: Rebuild
    problem: str


def partners(plan: Plan, source: Instance, *, without: Rebuild | None = None) -> list[Partner]:
    """Return the leaders that read, or will read, the same source and can still be joined, oldest first. One query without leaders,
    else four.

    Args:
        plan: of the joining rebuild, whether it is already requested or not.
        source: the common source.
        without: the joining rebuild, if it is already requested.

    One query where there are none, else four.
    """
    rows = Rebuild.objects.filter(source=source, method__in=shareable(), status__in=(Status.QUEUED, Status.RUNNING))
    open_rows = rows.filter(leader=None, pending_status="").exclude(pk=without.pk if without else 0)
    found = list(open_rows.select_related("target", "source").order_by("requested_at", "pk"))
    known = leaders(row.pk for row in found) if found else {}
    can_join = [row for row in found if known[row.pk].can_be_joined]
    tools = tools_of(source) if can_join else ()
    return [Partner(row, why_not_shared(plan, from_record(Plan, row.plan), tools, shareable())) for row in can_join]


def tools_of(source: Instance) -> tuple[str, ...]:
    """Return the tools that the last probe found on a host. One query."""
    facts = member_of(Instance.objects.select_related("host", "cluster", "state").get(pk=source.pk)).facts
    return tuple(facts.host.tools) if facts and facts.host else ()


def may_join(plan: Plan, leader: Rebuild, operation: str) -> None:
    """Refuse unless a leader's read can serve a plan (``join.not_possible``)."""
    if problem := why_not_shared(plan, from_record(Plan, leader.plan), tools_of(leader.source), shareable()):
        raise refused(operation, problem)


def join_read(*, actor: User, rebuild: Rebuild, leader: Rebuild) -> None:
    """Let a queued rebuild follow another one, which is queued or has just begun.

    Raises:
        Refused: ``access.denied``, or it cannot join (``join.not_possible``).
    """
    operation = phrase("Joining rebuild {rebuild} to rebuild {leader}", rebuild=rebuild.pk, leader=leader.pk)
    require_operator(actor, operation, rebuild.target.cluster_id)
    may_join(from_record(Plan, rebuild.plan), leader, operation)
    name = actor.get_username()
    try:
        with transaction.atomic():
            joined = shared_reads.join(rebuild, leader, name)
            if joined:
                append(
                    actor=name,
                    action="rebuild.joined",
                    subject=rebuild.target.name,
                    detail={"rebuild": rebuild.pk, "leader": leader.pk, "source": rebuild.source.name},
                )
                nudge()
    except OperationalError as error:
        if not lost_a_race(error):
            raise
        joined = False
    rebuild.refresh_from_db()
    if not joined:
        raise refused(
            operation, phrase("this rebuild is not queued, the other already reads, or one of them is in another group")
        )


def leave_read(*, actor: User, rebuild: Rebuild) -> None:
    """Let a queued rebuild wait for its source on its own.

    Raises:
        Refused: ``access.denied``, or it is no follower, or is no longer queued (``join.not_joined``).
    """
    operation = phrase("Removing rebuild {rebuild} from its shared read", rebuild=rebuild.pk)
    require_operator(actor, operation, rebuild.target.cluster_id)
    name, leader = actor.get_username(), rebuild.leader_id
    with transaction.atomic():
        left = shared_reads.leave(
            rebuild, phrase("Left the shared read, by {name}. The rebuild waits for the source on its own.", name=name)
        )
        if left:
            append(
                actor=name,
                action="rebuild.left",
                subject=rebuild.target.name,
                detail={"rebuild": rebuild.pk, "leader": leader},
            )
            nudge()
    rebuild.refresh_from_db()
    if not left:
        raise Refused(
            "join.not_joined",
            operation,
            cause=phrase("it is not part of a shared read, or no longer waits"),
        )


def refused(operation: str, found: str) -> Refused:
    """Return the refusal to join (``join.not_possible``)."""
    return Refused(
        "join.not_possible",
        operation,
        cause=found,
    )
