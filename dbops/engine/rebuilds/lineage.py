"""Trace the data of an instance back through the rebuilds that copied it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dbops.engine.rebuilds.follow_ups import RESUME, ROLLBACK
from dbops.engine.states import Status


class DataOrigin(StrEnum):
    """The origin of an instance's data at a moment."""

    COPIED = "copied"
    NEVER_REBUILT = "never rebuilt"
    BEING_REPLACED = "being replaced"
    LEFT_UNDONE = "left undone"
    REPLACED_BY_HAND = "replaced by hand"


@dataclass(frozen=True, slots=True)
class CopyEvent:
    """The effect of one started rebuild on its target.

    Attributes:
        follows: the rebuild that it resumes or rolls back.
        read_at: when it began to read its source; its start if that is unknown.
        finished_at: ``None`` while it runs.
        has_touched: whether it changed anything on the target.
        is_verified: whether the copy was verified: then it stays, whatever the rebuild's result.
        is_rolled_back: whether the old data was rolled back.
    """

    rebuild: int
    target: str
    source: str
    method: str
    status: Status
    started_at: datetime
    read_at: datetime
    finished_at: datetime | None = None
    follows: int | None = None
    has_touched: bool = True
    is_verified: bool = False
    is_rolled_back: bool = False

    @property
    def leaves_its_copy(self) -> bool:
        return self.method != ROLLBACK and (self.status is Status.SUCCEEDED or self.is_verified)

    @property
    def leaves_the_old_data(self) -> bool:
        return self.method == ROLLBACK and (self.status is Status.SUCCEEDED or self.is_rolled_back)


@dataclass(frozen=True, slots=True)
class ForeignData:
    """Other data found on an instance than before, not made by a rebuild (``topology.meanings.REPLACED``)."""

    instance: str
    at: datetime
    description: str


@dataclass(frozen=True, slots=True)
class Generation:
    """One instance's data at a moment.

    ``copied_by`` copied it; ``established_by`` is the rebuild that established it: the same, a resume that completed it, or the
    one that left it incomplete. ``found`` is the discovery of data that no rebuild made.
    """

    instance: str
    at: datetime
    known: DataOrigin
    copied_by: CopyEvent | None = None
    established_by: CopyEvent | None = None
    found: ForeignData | None = None


def lineage(
    instance: str, at: datetime, acts: Iterable[CopyEvent], found: Collection[ForeignData] = ()
) -> list[Generation]:
    """Return whose data an instance has at a moment, then whose data its source had when it was read, and so on.

    Each entry is older than the one before. The chain ends at an instance that was never rebuilt, or whose data is unknown.


    Args:
        acts: of all instances that the data may come from.
        found: discoveries of data on these instances that no rebuild made.
    """
    by_number = {act.rebuild: act for act in acts}
    generations: list[Generation] = []
    while True:
        generation = data_of(instance, at, by_number, found)
        generations.append(generation)
        copy = generation.copied_by
        if copy is None or copy.read_at >= at:
            return generations
        instance, at = copy.source, copy.read_at


def data_of(
    instance: str, at: datetime, acts: Mapping[int, CopyEvent], found: Collection[ForeignData] = ()
) -> Generation:
    """Return whose data an instance has at a moment."""
    before = at
    own = (act for act in acts.values() if act.target == instance and act.has_touched)
    by_hand = sorted((one for one in found if one.instance == instance), key=lambda one: one.at, reverse=True)
    for act in sorted(own, key=lambda act: (act.started_at, act.rebuild), reverse=True):
        if act.started_at >= before:
            continue
        if seen := _first_before(by_hand, before, act.started_at):
            return Generation(instance, at, DataOrigin.REPLACED_BY_HAND, found=seen)
        if act.finished_at is None or act.finished_at > at:
            return Generation(instance, at, DataOrigin.BEING_REPLACED, established_by=act)
        if act.leaves_the_old_data:
            # Everything since the begin of the rebuild that was rolled back is undone.
            before = _first(act, acts).started_at
        elif act.leaves_its_copy:
            return Generation(instance, at, DataOrigin.COPIED, _first(act, acts), act)
        else:
            return Generation(instance, at, DataOrigin.LEFT_UNDONE, established_by=act)
    if seen := _first_before(by_hand, before):
        return Generation(instance, at, DataOrigin.REPLACED_BY_HAND, found=seen)
    return Generation(instance, at, DataOrigin.NEVER_REBUILT)


def _first_before(found: Iterable[ForeignData], before: datetime, after: datetime | None = None) -> ForeignData | None:
    """Return the newest discovery between two moments. The newest comes first in ``found``."""
    return next((one for one in found if one.at < before and (after is None or one.at > after)), None)


def _first(act: CopyEvent, acts: Mapping[int, CopyEvent]) -> CopyEvent:
    """Return the rebuild whose copy another one resumes or rolls back."""
    while act.method in (RESUME, ROLLBACK) and act.follows is not None and act.follows in acts:
        act = acts[act.follows]
    return act
