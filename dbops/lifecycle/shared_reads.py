"""Rebuilds that share one read of their source: joining while both wait, and who holds the source afterwards.

Each move is a conditional update. The source is held by one of them at a time: by the one who reads, and when that has ended by one of the
others for as long as any of them runs, for they roll forward from the source.
"""

from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from dbops.database.errors import locked
from dbops.engine.rebuilds.shared_read import BRANCHES
from dbops.engine.states import Status, StepState
from dbops.lifecycle.events import announce_later, log_event
from dbops.models import Hold, Rebuild, RebuildStep

AT_WORK = (Status.RUNNING, Status.LOST)


class _Late(Exception):
    """Who reads has settled for whom it reads."""


def join(rebuild: Rebuild, reader: Rebuild, by: str) -> bool:
    """Let a queued rebuild get its copy from the read of another one. Return whether both could.

    Whoever reads does not join somebody else, and who has branches is not a branch: checked by the updates themselves. A reader that
    runs can be joined until it has settled for whom it reads; that it does so at this moment is met by the scheduler.
    """
    if rebuild.pk == reader.pk:
        return False
    may_read = Q(status=Status.QUEUED) | Q(status=Status.RUNNING, pending_status="")
    try:
        with transaction.atomic():
            _lock(rebuild.pk, reader.pk)
            # both rows are written, so that of two who join each other at one moment the second finds what the first did
            if not locked(Rebuild, reader.pk).filter(may_read, leader=None).update(revision=F("revision") + 1):
                return False
            waits = RebuildStep.objects.filter(
                rebuild=reader, name="pause", state__in=(StepState.DONE, StepState.SKIPPED)
            )
            if waits.exists() or BRANCHES in Rebuild.objects.values_list("checkpoint", flat=True).get(pk=reader.pk):
                raise _Late
            alone = locked(Rebuild, rebuild.pk).filter(status=Status.QUEUED, leader=None)
            if not alone.update(leader=reader, waiting_for="", revision=F("revision") + 1):
                raise _Late
            # asked after its row was written: who joins it writes that row too, and has either committed or comes after us
            if _branches(rebuild).exists():
                raise _Late
            log_event(rebuild, f"Joined by {by} to rebuild {reader.pk}: one read of {reader.source.name} for both.")
            log_event(reader, f"Rebuild {rebuild.pk} ({rebuild.target.name}) was joined to this one by {by}.")
    except _Late:
        return False
    for row in (rebuild, reader):
        announce_later(row.pk)
    return True


def leave(rebuild: Rebuild, text: str) -> bool:
    """Let a queued branch wait for the source by itself again. Return whether it was a queued branch.

    Args:
        rebuild: as it was read: one that was joined to another reader since then stays with that one.
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
    """Lock a rebuild and those who wait for its read, where there are any."""
    waiting = list(_branches(rebuild).filter(status=Status.QUEUED).values_list("pk", flat=True))
    if waiting:
        _lock(rebuild.pk, *waiting)


def _lock(*rebuilds: int) -> None:
    """Lock several rebuilds in the order in which all who lock several do: by primary key."""
    for pk in sorted(rebuilds):
        list(Rebuild.objects.filter(pk=pk).order_by().select_for_update().values_list("pk"))


def promote_follower(rebuild: Rebuild) -> None:
    """The one who was to read has ended before it started: the first of its branches reads for the others. In the caller's transaction."""
    waiting = list(_branches(rebuild).filter(status=Status.QUEUED).order_by("pk"))
    for number, follower in enumerate(waiting):
        reader = None if number == 0 else waiting[0]
        branch_of = locked(Rebuild, follower.pk).filter(status=Status.QUEUED)
        # it was to start with the other one: nothing starts earlier because that was cancelled
        wishes: dict[str, Any] = {}
        if reader is None:
            moments = [moment for moment in (follower.not_before, rebuild.not_before) if moment]
            wishes = {
                "not_before": max(moments, default=None),
                "start_after_run": follower.start_after_run_id or rebuild.start_after_run_id,
            }
        if branch_of.update(leader=reader, waiting_for="", revision=F("revision") + 1, **wishes):
            who = "this one reads" if reader is None else f"rebuild {reader.pk} reads"
            log_event(follower, f"Rebuild {rebuild.pk}, which was to read the source, has ended: {who} instead.")
            announce_later(follower.pk)


def pass_on_source(rebuild: Rebuild) -> None:
    """Give the hold on the source to another rebuild of the same read that still runs. In the transaction that ends this one."""
    held = Hold.objects.filter(rebuild=rebuild, purpose="source")
    if not held.exists():
        return
    first = rebuild.leader_id or rebuild.pk
    others = Rebuild.objects.filter(Q(pk=first) | Q(leader=first), status__in=AT_WORK).exclude(pk=rebuild.pk)
    for pk in others.order_by("pk").values_list("pk", flat=True):
        # the row is written, so that one that ends at this moment either has ended, or ends after us and frees what it was given
        if locked(Rebuild, pk).filter(status__in=AT_WORK).update(revision=F("revision") + 1):
            held.update(rebuild=pk, taken_at=timezone.now())
            return


def _branches(rebuild: Rebuild) -> QuerySet[Rebuild]:
    return Rebuild.objects.filter(leader=rebuild.pk)
