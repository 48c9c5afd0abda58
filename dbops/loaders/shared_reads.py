"""Read the members of a shared read from the database on each call."""

from collections.abc import Iterable, Sequence

from dbops.engine.rebuilds.shared_read import (
    FOLLOWERS,
    SharedReadMember,
    SharedReadPhase,
    phase_of_follower,
    phase_of_leader,
)
from dbops.engine.states import STEP_FINAL, Status, StepState
from dbops.models import Rebuild


class RowSharedReadMembers:
    """The other members of a rebuild's shared read (``engine.rebuilds.shared_read.SharedReadMembers``)."""

    def __init__(self, rebuild: Rebuild) -> None:
        self._pk, self._leader = rebuild.pk, rebuild.leader_id

    def leader(self) -> SharedReadMember | None:
        return leaders([self._leader])[self._leader] if self._leader else None

    def followers(self) -> Sequence[SharedReadMember]:
        """Return the members, with two queries, or one if there are none."""
        rows = Rebuild.objects.filter(leader=self._pk).defer("plan", "checkpoint").order_by("pk")
        found = list(rows.select_related("target").prefetch_related("steps"))
        return [
            _member(row, phase_of_follower(Status(row.status), row.pending_status, _steps(row)))
            for row in found
            if not (
                row.status != Status.QUEUED and row.started_at is None
            )  # a rebuild that never started was not part of the read
        ]


def leaders(keys: Iterable[int]) -> dict[int, SharedReadMember]:
    """Return these rebuilds as members of a shared read. Two queries."""
    rows = Rebuild.objects.filter(pk__in=set(keys)).defer("plan").select_related("target").prefetch_related("steps")
    found = {}
    for row in rows:
        settled = row.checkpoint.get(FOLLOWERS)
        if settled is None and _steps(row).get("pause") in STEP_FINAL:
            settled = ()  # started before shared reads existed
        phase = phase_of_leader(Status(row.status), row.pending_status, _steps(row), row.checkpoint)
        found[row.pk] = _member(row, phase, None if settled is None else tuple(settled))
    return found


def _member(row: Rebuild, phase: SharedReadPhase, followers: tuple[str, ...] | None = None) -> SharedReadMember:
    return SharedReadMember(number=row.pk, uid=row.uid, target=row.target.name, phase=phase, followers=followers)


def _steps(row: Rebuild) -> dict[str, StepState]:
    return {step.name: StepState(step.state) for step in row.steps.all()}
