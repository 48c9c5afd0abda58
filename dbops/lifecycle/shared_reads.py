"""Join and leave shared reads, and pass on the hold of their source.

Each change is a conditional update. One rebuild at a time holds the source: the leader, and after its end one of the active
followers, because they catch up from the source.
"""

from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet

from dbops.database import clock
from dbops.database.errors import locked
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.shared_read import FOLLOWERS
from dbops.engine.states import Status, StepState
from dbops.lifecycle.events import announce_later, log_event
from dbops.models import Hold, Rebuild, RebuildStep

AT_WORK = (Status.RUNNING, Status.LOST)


class _Late(Exception):
    """The leader's list of followers is final."""


def join(rebuild: Rebuild, leader: Rebuild, by: str) -> bool:
    """Let a queued rebuild follow another one's read. Return whether both could.

    A leader cannot become a follower, and a follower cannot have followers: the updates check this. A running leader can be
    joined until its list of followers is final; the scheduler handles a join at that very moment.
    """
    if rebuild.pk == leader.pk:
        return False
    may_read = Q(status=Status.QUEUED) | Q(status=Status.RUNNING, pending_status="")
    try:
        with transaction.atomic():
            _lock(rebuild.pk, leader.pk)
            # both rows are written, so that of two rebuilds that join each other at the same time the second finds the first
            # one's change
            if not locked(Rebuild, leader.pk).filter(may_read, leader=None).update(revision=F("revision") + 1):
                return False
            waits = RebuildStep.objects.filter(
                rebuild=leader, name="pause", state__in=(StepState.DONE, StepState.SKIPPED)
            )
            if waits.exists() or FOLLOWERS in Rebuild.objects.values_list("checkpoint", flat=True).get(pk=leader.pk):
                raise _Late
            alone = locked(Rebuild, rebuild.pk).filter(status=Status.QUEUED, leader=None)
            if not alone.update(leader=leader, waiting_for="", revision=F("revision") + 1):
                raise _Late
            # checked after its row was written: a concurrent join writes that row too, and has either committed or comes later
            if _followers(rebuild).exists():
                raise _Late
            log_event(
                rebuild,
                phrase(
                    "Joined by {by} to rebuild {leader}: one read of {source} for both.",
                    by=by,
                    leader=leader.pk,
                    source=leader.source.name,
                ),
            )
            log_event(
                leader,
                phrase(
                    "Rebuild {rebuild} ({target}) was joined to this one by {by}.",
                    rebuild=rebuild.pk,
                    target=rebuild.target.name,
                    by=by,
                ),
            )
    except _Late:
        return False
    for row in (rebuild, leader):
        announce_later(row.pk)
    return True


def leave(rebuild: Rebuild, text: str) -> bool:
    """Let a queued follower wait for the source on its own. Return whether it was a queued follower.

    Args:
        rebuild: as read; if it has joined another leader since then, it stays there.
    """
    with transaction.atomic():
        moved = (
            locked(Rebuild, rebuild.pk)
            .filter(status=Status.QUEUED, leader=rebuild.leader_id)
            .exclude(leader=None)
            .update(leader=None, revision=F("revision") + 1)
        )
        if moved:
            log_event(rebuild, text)
    if moved:
        announce_later(rebuild.pk)
    return bool(moved)


def lock_with_followers(rebuild: Rebuild) -> None:
    """Lock a rebuild and its followers, if any."""
    waiting = list(_followers(rebuild).filter(status=Status.QUEUED).values_list("pk", flat=True))
    if waiting:
        _lock(rebuild.pk, *waiting)


def _lock(*rebuilds: int) -> None:
    """Lock several rebuilds in the common order, by primary key."""
    for pk in sorted(rebuilds):
        list(Rebuild.objects.filter(pk=pk).order_by().select_for_update().values_list("pk"))


def promote_follower(rebuild: Rebuild) -> None:
    """Make the first follower the leader after the leader ended before its start. In the caller's transaction."""
    waiting = list(_followers(rebuild).filter(status=Status.QUEUED).order_by("pk"))
    for number, follower in enumerate(waiting):
        leader = None if number == 0 else waiting[0]
        queued = locked(Rebuild, follower.pk).filter(status=Status.QUEUED)
        # a follower starts with its leader: the cancellation does not start anything earlier
        wishes: dict[str, Any] = {}
        if leader is None:
            moments = [moment for moment in (follower.not_before, rebuild.not_before) if moment]
            wishes = {
                "not_before": max(moments, default=None),
                "start_after_run": follower.start_after_run_id or rebuild.start_after_run_id,
            }
        if queued.update(leader=leader, waiting_for="", revision=F("revision") + 1, **wishes):
            who = phrase("this one reads") if leader is None else phrase("rebuild {leader} reads", leader=leader.pk)
            log_event(
                follower,
                phrase(
                    "Rebuild {rebuild}, which was to read the source, has ended: {who} instead.",
                    rebuild=rebuild.pk,
                    who=who,
                ),
            )
            announce_later(follower.pk)


def pass_on_source(rebuild: Rebuild) -> None:
    """Pass the hold on the source to an active rebuild of the same read, in the transaction that ends this one."""
    held = Hold.objects.filter(rebuild=rebuild, purpose="source")
    if not held.exists():
        return
    first = rebuild.leader_id or rebuild.pk
    others = Rebuild.objects.filter(Q(pk=first) | Q(leader=first), status__in=AT_WORK).exclude(pk=rebuild.pk)
    for pk in others.order_by("pk").values_list("pk", flat=True):
        # write the row, so that a rebuild that ends now either has ended, or ends later and frees the hold that it received
        if locked(Rebuild, pk).filter(status__in=AT_WORK).update(revision=F("revision") + 1):
            held.update(rebuild=pk, taken_at=clock.now())
            return


def _followers(rebuild: Rebuild) -> QuerySet[Rebuild]:
    return Rebuild.objects.filter(leader=rebuild.pk)
