"""Decide which queued jobs start next and what the others wait for.

Each instance has a line. A job starts when it is the first in the lines of all instances that it claims: so nobody is passed,
nobody waits for ever for two instances that are free by turns, and who waits for a busy source keeps nobody from a free one.
A line is ordered by priority, then by the moment since which its jobs want to start. Backup runs have priority 0: a rebuild of
higher priority passes a backup that waits; nothing that runs is ended for it. Who waits for a moment or for the end of a backup
run that a person named (its gate) stands in no line until then, so that tonight's rebuild keeps nobody from working now.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple


class JobKind(StrEnum):
    REBUILD = "rebuild"
    BACKUP = "backup run"


#: What a job is known by: its kind and its primary key.
Key = tuple[JobKind, int]


class QueuedJob(NamedTuple):
    """Something queued. Ten thousand of them are made for each decision, so there is little in them.

    ``order`` is what ``line_order`` returns. ``claims`` are the instances that it holds while it runs: a rebuild's source, if
    it reads one, and last its target. ``gate`` says in words what it waits for by a person's wish, empty when it may start as
    soon as it is its turn. ``told`` is what its history says already that it waits for.
    """

    kind: JobKind
    pk: int
    order: tuple[Any, ...]
    claims: tuple[int, ...]
    gate: str = ""
    told: str = ""

    @property
    def key(self) -> Key:
        return (self.kind, self.pk)

    def purpose(self, instance: int) -> str:
        """Return as what it holds one of its instances."""
        if self.kind is JobKind.BACKUP:
            return "backup"
        return "target" if instance == self.claims[-1] else "source"


def line_order(priority: int, since: Any, number: int) -> tuple[Any, ...]:
    """Return the key that sorts a line: higher priority first, then who waits longer, then the lower primary key.

    Args:
        since: when the job wants to start: the moment that a person chose, else when it was queued. Any value that sorts.
    """
    return (-priority, since, number)


@dataclass(frozen=True, slots=True)
class Decision:
    """``starts`` in their order, and ``reasons`` for those who wait, where their history does not say so already."""

    starts: tuple[QueuedJob, ...]
    reasons: Mapping[Key, str]


def decide(
    jobs: Iterable[QueuedJob],
    held: Mapping[int, str],
    name_of: Callable[[int], str],
    *,
    failed: Collection[Key] = (),
    limit: int = 500,
) -> Decision:
    """Return who starts now, and what everybody else waits for.

    Args:
        jobs: everything queued, in any order.
        held: instance to the words of who holds it.
        name_of: the name of an instance; asked for only where a reason needs it.
        failed: jobs that could not be started a moment ago though it was their turn: who stands behind them waits for them.
        limit: characters of a reason.
    """
    taken: dict[int, str | QueuedJob] = dict(held)
    starts: list[QueuedJob] = []
    reasons: dict[Key, str] = {}
    begun: set[Key] = set()

    def words(instance: int) -> str:
        """Say once for each instance who is before all others there."""
        item = taken[instance]
        if not isinstance(item, str):
            say = hold_reason if item.key in begun else reservation_reason
            taken[instance] = item = say(name_of(instance), item.kind, item.pk, item.purpose(instance))
        return item

    for job in sorted(jobs, key=attrgetter("order")):
        _, _, _, claims, reason, told = job
        if not reason:
            blocking = [instance for instance in claims if instance in taken]
            for instance in claims:
                if instance not in taken:
                    taken[instance] = job
            if not blocking:
                if not failed or job.key not in failed:
                    starts.append(job)
                    begun.add(job.key)
                continue  # whoever tried in vain to start it has written why not
            reason = words(blocking[0]) if len(blocking) == 1 else "; ".join(map(words, blocking))
            if len(reason) > limit:
                reason = reason[:limit]
        if reason != told:
            reasons[job.key] = reason
    return Decision(tuple(starts), reasons)


def hold_reason(name: str, kind: JobKind, pk: int, purpose: str) -> str:
    """Return the holder of an instance as text."""
    if kind is JobKind.BACKUP:
        return f"{name} is held by backup run {pk}"
    return f"{name} is held by rebuild {pk} ({purpose})"


def reservation_reason(name: str, kind: JobKind, pk: int, purpose: str) -> str:
    """Return the job for which an instance without a holder is reserved, as text."""
    who = f"backup run {pk}" if kind is JobKind.BACKUP else f"rebuild {pk} ({purpose})"
    return f"{name} is reserved for {who}"
